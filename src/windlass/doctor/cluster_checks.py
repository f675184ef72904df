"""Checks of what is neither ours nor a GPU's: the API server, and who adds nodes."""

from __future__ import annotations

import re
from collections.abc import Iterator

from windlass.doctor.evidence import DoctorFinding, Evidence, fail, named, ok, place, warn

OLDEST = (1, 29)
"""The first whose CustomResourceDefinitions know rules for good."""
ADVISED = (1, 31)
"""The first whose Jobs forgive evictions for good."""


def server(found: Evidence) -> Iterator[DoctorFinding]:
    """Is the API server recent enough?"""
    parts = re.match(r"v?(\d+)\.(\d+)", found.version)
    if parts is None:
        yield warn(
            "the version of the API server is not known", "ask for the right to GET /version"
        )
        return
    version = (int(parts[1]), int(parts[2]))
    if version < OLDEST:
        yield fail(
            f"the API server is {found.version}, which does not know rules in definitions",
            f"upgrade Kubernetes to {_dotted(ADVISED)} or later",
        )
    elif version < ADVISED:
        yield warn(
            f"the API server is {found.version}, where evictions may count as failures of a Job",
            f"upgrade Kubernetes to {_dotted(ADVISED)} or later",
        )
    else:
        yield ok(f"the API server is {found.version}")


def autoscaler(found: Evidence) -> Iterator[DoctorFinding]:
    """Who adds nodes, if anybody does?"""
    scalers = named(found.deployments, "cluster-autoscaler", "karpenter")
    if not scalers:
        yield ok("no autoscaler was found: a gang that lacks nodes waits until somebody adds them")
        return
    for each in scalers:
        if each.status.get("readyReplicas", 0) < 1:
            yield warn(
                f"autoscaler {place(each)} has no ready pod, so no nodes are added",
                f"see `kubectl -n {each.metadata.namespace} describe deployment "
                f"{each.metadata.name}`",
            )
        else:
            yield ok(f"autoscaler {place(each)} adds nodes for gangs that their queue admits")


def hidden(found: Evidence) -> Iterator[DoctorFinding]:
    """What could not be looked at?"""
    for what, why in found.hidden.items():
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
"""Parts of the evidence as users know them, where that differs."""


def _dotted(version: tuple[int, int]) -> str:
    return f"{version[0]}.{version[1]}"
