"""The labels and annotations that Windlass reads and writes, and what users wrote in them."""

from __future__ import annotations

from windlass.workloads.objects.wire import ObjectMeta

PREFIX = "windlass.dev/"

QUEUE = PREFIX + "queue"
"""Label: the queue of a pod; without it, the queue of its namespace."""
GANG = PREFIX + "gang"
"""Label: pods of one namespace that carry the same value start together."""
GROUP = PREFIX + "group"
"""Label: which part of its gang a pod belongs to, where a Gang object has several."""
MINIMUM = PREFIX + "minimum"
"""Label or annotation: how many pods a gang starts with, instead of what its owner says."""
PREEMPTIBLE = PREFIX + "preemptible"
"""Label: `true` or `false`, instead of what follows from how its owner survives an eviction."""
DURATION = PREFIX + "duration"
"""Annotation: how long it is expected to run, such as `90s`, `45m`, `2h30m`."""
CREATOR = PREFIX + "creator"
"""Annotation, ours: the user who made an object, or whose object made it; the webhook writes it."""
MANAGED = PREFIX + "managed"
"""Label of a namespace, `true`: its pods are ours by default, and `CREATOR` is believed there."""
LATENCY_CRITICAL = PREFIX + "latency-critical"
"""Annotation: `true`, or how long others may take to save their work for it, such as `10s`."""
MAX_RUN = PREFIX + "max-run"
"""Annotation: how long it may run at a stretch, such as `8h`; then it saves, if it can, and stops.
"""
OVERRUN = PREFIX + "overrun"
"""Annotation: what becomes of it then, `end` or `requeue`."""
STOPS = PREFIX + "stops-at-most"
"""Annotation: how often it may lose its place to others; then it is spared, as its guarantee goes.
"""
SAVED = PREFIX + "saved"
"""Condition, ours: the last answer of a pod, believed, that its work is safe."""
QUARANTINE = PREFIX + "quarantine"
"""Annotation of a node, ours or a person's: it takes nobody new, and why; without it it does."""
TRUSTED = PREFIX + "trusted-since"
"""Annotation of a node: what failed there before that moment does not count against it."""
PROMISE = PREFIX + "promise"
"""Condition, ours: the places kept for a gang, on one of its pods."""
SUSPENDED = PREFIX + "suspended"
"""Annotation of an owner, ours: we have suspended it, when, why and for whom."""
SEAL = PREFIX + "suspended-signature"
"""Annotation of an owner, ours: our signature of `SUSPENDED`; without it that is not believed."""


def mark(meta: ObjectMeta, name: str) -> str:
    """What a label or else an annotation of that name says; nothing if neither is there."""
    return (meta.labels or {}).get(name) or (meta.annotations or {}).get(name) or ""
