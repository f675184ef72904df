"""The labels, annotations and conditions that Windlass reads and writes.

"Ours" marks those that Windlass writes; users write the others.
"""

from __future__ import annotations

from windlass.workloads.objects.wire import ObjectMeta

PREFIX = "windlass.dev/"

QUEUE = PREFIX + "queue"
"""Label: the queue of a pod; without it, the pod gets the queue of its namespace."""
GANG = PREFIX + "gang"
"""Label: pods of one namespace that carry the same value start together."""
GROUP = PREFIX + "group"
"""Label: the group of its gang that a pod belongs to, if the Gang object has groups."""
MINIMUM = PREFIX + "minimum"
"""Label or annotation: the number of pods that a gang starts with, instead of the owner's."""
PREEMPTIBLE = PREFIX + "preemptible"
"""Label: `true` or `false`; by default it follows from how the owner survives an eviction."""
DURATION = PREFIX + "duration"
"""Annotation: the expected run time, such as `90s`, `45m`, `2h30m`."""
CREATOR = PREFIX + "creator"
"""Annotation, ours: the user who created an object or its owner; the webhook writes it."""
MANAGED = PREFIX + "managed"
"""Label of a namespace, `true`: its pods get our scheduler by default, and `CREATOR` is trusted."""
LATENCY_CRITICAL = PREFIX + "latency-critical"
"""Annotation: `true`, or the time that its victims get for a checkpoint, such as `10s`."""
MAX_RUN = PREFIX + "max-run"
"""Annotation: the longest run without interruption, such as `8h`. Then a checkpoint is requested,
if it can make one, and it is stopped."""
OVERRUN = PREFIX + "overrun"
"""Annotation: the action after `MAX_RUN`: `end` or `requeue`."""
STOPS = PREFIX + "stops-at-most"
"""Annotation: the number of times that it may be displaced; then it is protected, as far as the
guarantee of its queue goes."""
SAVED = PREFIX + "saved"
"""Condition, ours: the last accepted answer of a pod that its checkpoint is complete."""
QUARANTINE = PREFIX + "quarantine"
"""Annotation of a node, ours or an administrator's: the node is quarantined, and the reason."""
CHECKED_NODE = PREFIX + "checked-node"
"""Annotation of a check Job, ours: the name of the node that it checks."""
TRUSTED = PREFIX + "trusted-since"
"""Annotation of a node: a time; failures before it do not count against the node."""
PROMISE = PREFIX + "promise"
"""Condition, ours, on one pod of a gang: the nodes and GPUs that are held for the gang."""
SUSPENDED = PREFIX + "suspended"
"""Annotation of an owner, ours: that we have suspended it, the time, the rule and the preemptor."""
SEAL = PREFIX + "suspended-signature"
"""Annotation of an owner, ours: our signature of `SUSPENDED`, which is ignored without it."""


def mark(meta: ObjectMeta, name: str) -> str:
    """Return the value of a label or, without one, of an annotation; "" if there is neither."""
    return (meta.labels or {}).get(name) or (meta.annotations or {}).get(name) or ""
