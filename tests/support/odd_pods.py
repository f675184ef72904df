"""Odd pods that an API server accepts, made by chance: each oddity changes one thing about a pod.

An oddity is a function of a pod as JSON and of dice. What it writes passes the API server's own
checks, or did in some version of it: nobody else stands between such pods and the scheduler.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.support.kube_given import container, made_by, pod_json
from windlass.workloads.objects.annotations import (
    DURATION,
    GANG,
    MINIMUM,
    PREEMPTIBLE,
    PROMISE,
    QUEUE,
)

Json = dict[str, Any]
Oddity = Callable[[Json, Random], None]

NODES = ("n1", "n2")
QUEUES = ("team", "closed", "top", "nowhere", "Team", "team-", "q" * 63)
AMOUNTS = (
    "1e30",
    "0",
    "1n",
    "100u",
    "0.0001",
    "7Ei",
    "1",
    "1500m",
    "1e-9",
    "2e3",
    "12345678901234",
)
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
STRANGE = "\u202eevil\u0000\n\t{0} %s \U0001f41f" + "\u00e9" * 50


def batches(size: int) -> st.SearchStrategy[list[tuple[Json, Json]]]:
    """So many odd pods, all of them there at once, each as it comes and as it is later."""
    return st.builds(
        lambda drawn: [_versions(f"p{i}", *each) for i, each in enumerate(drawn)],
        st.lists(st.tuples(_SEEDS, _CHOSEN, _LATER), min_size=size, max_size=size),
    )


def odd_pod(name: str, seed: int, chosen: list[str]) -> Json:
    """A pod with these oddities, in this order."""
    rolls = Random(seed)
    gpus = rolls.choice(["0", "1", "1", "2"])
    found = pod_json(name, containers=[container(**{"nvidia.com/gpu": gpus})])
    found["metadata"]["uid"] = f"{rolls.getrandbits(64):016x}"
    for each in chosen:
        ODDITIES[each](found, rolls)
    for field in ("labels", "annotations"):
        if not found["metadata"][field] and rolls.random() < 0.5:
            found["metadata"][field] = None
    return found


def _versions(name: str, seed: int, chosen: list[str], later: list[str]) -> tuple[Json, Json]:
    return odd_pod(name, seed, chosen), odd_pod(name, seed, chosen + later)


# --- who made it, and with whom it starts


def _owned(pod: Json, rolls: Random) -> None:
    known = made_by("Job", "batch/v1", "known")
    references = [
        [known],
        [made_by("Job", "batch/v1", f"never-{rolls.randrange(3)}")],
        [made_by("ReplicaSet")],
        [made_by("Sandwich", "food.example.com/v1beta7")],
        [made_by("Job", "")],
        [known | {"controller": False}, made_by("Job", "batch/v1", "loose")],
        [{"kind": "Job", "name": "x", "uid": "", "apiVersion": "batch/v1", "controller": True}],
    ]
    pod["metadata"]["ownerReferences"] = rolls.choice(references)


def _gang(pod: Json, rolls: Random) -> None:
    labels = pod["metadata"]["labels"]
    labels[GANG] = rolls.choice(["shared", "shared", "other", "x" * 63])
    if rolls.random() < 0.8:
        labels[MINIMUM] = rolls.choice(["1", "2", "2", "3", "5", "0", "-1", "many", "99999"])


def _gang_by_annotation(pod: Json, rolls: Random) -> None:
    written = rolls.choice(["2", STRANGE, "9" * 5000, "1" * 20, "\u0662", "2.0", ""])
    pod["metadata"]["annotations"] |= {GANG: rolls.choice(["shared", STRANGE]), MINIMUM: written}


def _marks(pod: Json, rolls: Random) -> None:
    pod["metadata"]["labels"][PREEMPTIBLE] = rolls.choice(["true", "false", "yes", "", "TRUE"])
    pod["metadata"]["annotations"][DURATION] = rolls.choice(
        ["2h", "soon", "-5m", "9" * 30, STRANGE]
    )


def _queue(pod: Json, rolls: Random) -> None:
    pod["metadata"]["labels"][QUEUE] = rolls.choice(QUEUES)


def _namespace(pod: Json, rolls: Random) -> None:
    pod["metadata"]["namespace"] = rolls.choice(["ml", "other", "nobody"])


def _promise(pod: Json, rolls: Random) -> None:
    device = rolls.choice([0, 1, 7, -3, 1 << 40, "x"])
    places = {rolls.choice(["n1", "gone"]): [["ml/p0/x", [[device, 1000, "", 0]]]]}
    text = json.dumps({"places": places, "starts_at": rolls.choice([0, 10**30, -1])})
    said = rolls.choice(["", "{}", "[]", STRANGE, text])
    kept = {"type": PROMISE, "status": "True", "message": said}
    pod["status"]["conditions"] = [*pod["status"].get("conditions", ()), kept]


# --- what it asks for


def _amounts(pod: Json, rolls: Random) -> None:
    requests = pod["spec"]["containers"][0]["resources"]["requests"]
    requests["cpu"], requests["memory"] = rolls.choice(AMOUNTS), rolls.choice(AMOUNTS)
    requests[rolls.choice(["example.com/dongle", "hugepages-2Mi", "ephemeral-storage"])] = "7"


def _gpus(pod: Json, rolls: Random) -> None:
    count = rolls.choice(["0", "1", "3", "4", "64", "65", "1000000000", "1e30"])
    pod["spec"]["containers"][0]["resources"]["requests"]["nvidia.com/gpu"] = count


def _containers(pod: Json, rolls: Random) -> None:
    count = rolls.choice([2, 20, 60])
    same = rolls.random() < 0.3
    pod["spec"]["containers"] = [
        container("main" if same else f"c{i}", cpu=rolls.choice(AMOUNTS)) for i in range(count)
    ]
    pod["spec"]["initContainers"] = [
        container(f"i{i}", sidecar=rolls.random() < 0.5, memory=rolls.choice(AMOUNTS))
        for i in range(rolls.randrange(4))
    ]


def _whole(pod: Json, rolls: Random) -> None:
    pod["spec"]["overhead"] = {"cpu": rolls.choice(AMOUNTS)}
    pod["spec"]["resources"] = {"requests": {"memory": rolls.choice(AMOUNTS)}}


def _resize(pod: Json, rolls: Random) -> None:
    given = {"requests": {"cpu": rolls.choice(AMOUNTS)}}
    reason = rolls.choice(["Infeasible", "Deferred"])
    pod["status"]["containerStatuses"] = [{"name": "main", "resources": given}, {"name": "ghost"}]
    pod["status"]["conditions"] = [{"type": "PodResizePending", "status": "True", "reason": reason}]


# --- where it may run


def _tolerations(pod: Json, rolls: Random) -> None:
    effects = ["", "NoSchedule", "NoExecute", "PreferNoSchedule"]
    pod["spec"]["tolerations"] = [
        {"key": f"k{i}", "operator": rolls.choice(["Exists", "Equal", ""])}
        | {"effect": rolls.choice(effects), "tolerationSeconds": rolls.randrange(-5, 10**9)}
        for i in range(rolls.choice([1, 400]))
    ] + [{"operator": "Exists"}]


def _node_affinity(pod: Json, rolls: Random) -> None:
    terms: list[Json] = [
        {},
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["east"]}]},
        {"matchExpressions": [{"key": "zone", "operator": "Gt", "values": ["--5"]}]},
        {"matchExpressions": [{"key": "cores", "operator": "Lt", "values": ["9" * 5000]}]},
        {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]},
        {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n2"]}]},
    ]
    required = {"nodeSelectorTerms": rolls.sample(terms, rolls.randrange(1, 4))}
    wishes = [{"weight": rolls.choice([1, 100]), "preference": rolls.choice(terms)}]
    affinity = pod["spec"].setdefault("affinity", {})
    affinity["nodeAffinity"] = rolls.choice([{REQUIRED: required}, {PREFERRED: wishes}])
    pod["spec"]["nodeSelector"] = rolls.choice([{}, {}, {"no.such/label": ""}])


def _pod_affinity(pod: Json, rolls: Random) -> None:
    own = {"matchLabels": {"app": "odd"}}
    term = {
        "topologyKey": rolls.choice(["kubernetes.io/hostname", "zone", "no.such/label"]),
        "labelSelector": rolls.choice([None, {}, own]),
        "namespaceSelector": rolls.choice([None, None, {}, own]),
        "matchLabelKeys": rolls.choice([[], ["app"], ["absent"]]),
    }
    side = rolls.choice(["podAffinity", "podAntiAffinity"])
    wish = {"weight": rolls.choice([1, 100]), "podAffinityTerm": term}
    found = rolls.choice([{REQUIRED: [term]}, {PREFERRED: [wish]}])
    pod["spec"].setdefault("affinity", {})[side] = found
    pod["metadata"]["labels"]["app"] = rolls.choice(["odd", "even"])


def _spread(pod: Json, rolls: Random) -> None:
    pod["spec"]["topologySpreadConstraints"] = [
        {
            "topologyKey": rolls.choice(["zone", "kubernetes.io/hostname", "no.such/label"]),
            "maxSkew": rolls.choice([1, 2147483647]),
            "whenUnsatisfiable": rolls.choice(["DoNotSchedule", "ScheduleAnyway"]),
            "labelSelector": rolls.choice([None, {}, {"matchLabels": {"app": "odd"}}]),
            "minDomains": rolls.choice([None, 1, 5]),
        }
    ]


def _left_out(pod: Json, rolls: Random) -> None:
    spec = pod["spec"]
    match rolls.randrange(4):
        case 0:
            spec["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        case 1:
            spec["volumes"] = [{"name": "v", "ephemeral": {}}, {"name": "w", "rbd": {}}]
        case 2:
            spec["resourceClaims"] = [{"name": "c", "resourceClaimName": "d"}]
        case _:
            address = rolls.choice(["", "::", "::1", "0.0.0.0", "10.0.0.1"])
            port = {"containerPort": 1, "hostPort": 65535, "hostIP": address, "protocol": "SCTP"}
            spec["containers"][0]["ports"] = [port, port | {"hostIP": "127.0.0.1"}]


# --- how it fares


def _phase(pod: Json, rolls: Random) -> None:
    phases = ["Pending", "Running", "Succeeded", "Failed", "Unknown", ""]
    pod["status"]["phase"] = rolls.choice(phases)
    pod["spec"]["nodeName"] = rolls.choice(["", "", *NODES, "gone", "gone-too"])
    pod["status"]["startTime"] = rolls.choice(
        [None, "2026-01-01T00:00:00Z", "9999-12-31T23:59:59Z"]
    )


def _dates(pod: Json, rolls: Random) -> None:
    stamps = [None, "0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-02-30T00:00:00Z"]
    pod["metadata"]["creationTimestamp"] = rolls.choice(stamps)


def _deleted(pod: Json, _rolls: Random) -> None:
    pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:30Z"


def _gates(pod: Json, _rolls: Random) -> None:
    pod["spec"]["schedulingGates"] = [{"name": "example.com/wait"}]


def _scheduler(pod: Json, rolls: Random) -> None:
    pod["spec"]["schedulerName"] = rolls.choice(["default-scheduler", "", "windlass "])


def _priority(pod: Json, rolls: Random) -> None:
    pod["spec"]["priority"] = rolls.choice([-2147483648, -1, 2000001000, 2147483647])
    pod["spec"]["preemptionPolicy"] = rolls.choice(["Never", "PreemptLowerPriority"])


def _said_before(pod: Json, rolls: Random) -> None:
    reason = rolls.choice(["Unschedulable", "SchedulerError", "QueueFull"])
    found = {"type": "PodScheduled", "status": "False", "reason": reason, "message": STRANGE}
    pod["status"]["conditions"] = [found, found]


# --- its labels


def _labels(pod: Json, rolls: Random) -> None:
    pod["metadata"]["labels"] |= {f"k{i}": "v" * 63 for i in range(rolls.choice([1, 200]))}
    pod["metadata"]["annotations"][STRANGE[:9]] = "\u6f22" * 50_000


ODDITIES: dict[str, Oddity] = {
    each.__name__.lstrip("_"): each
    for each in (
        *(_owned, _gang, _gang_by_annotation, _marks, _queue, _namespace, _promise),
        *(_amounts, _gpus, _containers, _whole, _resize),
        *(_tolerations, _node_affinity, _pod_affinity, _spread, _left_out),
        *(_phase, _dates, _deleted, _gates, _scheduler, _priority, _said_before, _labels),
    )
}

_SEEDS = st.integers(0, 2**32)
_CHOSEN = st.lists(st.sampled_from(sorted(ODDITIES)), max_size=6)
_LATER = st.lists(st.sampled_from(sorted(set(ODDITIES) - {"namespace"})), max_size=2)
"""What may become of a pod; it does not move to another namespace."""
