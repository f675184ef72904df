"""Checks of the cluster around Windlass: the version of the API server, and autoscalers."""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.doctor.evidence import DoctorFinding, Evidence, fail, named, ok, place, warn

OLDEST = (1, 29)
"""The first version with stable validation rules in CustomResourceDefinitions."""
ADVISED = (1, 31)
"""The first version in which a Job's policy to ignore evictions is stable."""


def server(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that the API server is recent enough."""
    parts = re.match(r"v?(\d+)\.(\d+)", evidence.version)
    if parts is None:
        yield warn(
            "the version of the API server is not known", "ask for the right to GET /version"
        )
        return
    version = (int(parts[1]), int(parts[2]))
    if version < OLDEST:
        yield fail(
            f"the API server is {evidence.version}, which does not know rules in definitions",
            f"upgrade Kubernetes to {_dotted(ADVISED)} or later",
        )
    elif version < ADVISED:
        yield warn(
            f"the API server is {evidence.version}, where evictions may count as failures of a Job",
            f"upgrade Kubernetes to {_dotted(ADVISED)} or later",
        )
    else:
        yield ok(f"the API server is {evidence.version}")


def autoscaler(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Report the autoscalers, and whether they are ready."""
    scalers = named(evidence.deployments, "cluster-autoscaler", "karpenter")
    if not scalers:
        yield ok("no autoscaler was found: a gang that lacks nodes waits until somebody adds them")
        return
    for scaler in scalers:
        if scaler.status.get("readyReplicas", 0) < 1:
            yield warn(
                f"autoscaler {place(scaler)} has no ready pod, so no nodes are added",
                f"see `kubectl -n {scaler.metadata.namespace} describe deployment "
                f"{scaler.metadata.name}`",
            )
        else:
            yield ok(f"autoscaler {place(scaler)} adds nodes for gangs that their queue admits")


def hidden(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Report the parts of the evidence that could not be read."""
    for what, why in evidence.hidden.items():
        yield warn(
            f"{WORDS.get(what, what)} could not be read, so nothing is said about that: {why}",
            "run the doctor with rights to read the whole cluster",
        )


WORDS = {
    "daemons": "daemon sets",
    "leader": "the lease",
    "policies": "cluster policies",
    "version": "the version",
}
"""The names of parts of the evidence for users, if they differ."""


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
