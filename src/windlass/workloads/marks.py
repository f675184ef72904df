"""The labels and annotations that Windlass reads and writes, and what users wrote in them."""

from __future__ import annotations

from windlass.workloads.wire import Meta

PREFIX = "windlass.dev/"

QUEUE = PREFIX + "queue"
"""Label: the queue of a pod; without it, the queue of its namespace."""
GANG = PREFIX + "gang"
"""Label: pods of one namespace that carry the same value start together."""
MINIMUM = PREFIX + "minimum"
"""Label or annotation: how many pods a gang starts with, instead of what its owner says."""
PREEMPTIBLE = PREFIX + "preemptible"
"""Label: `true` or `false`, instead of what follows from how its owner survives an eviction."""
DURATION = PREFIX + "duration"
"""Annotation: how long it is expected to run, such as `90s`, `45m`, `2h30m`."""
PROMISE = PREFIX + "promise"
"""Condition, ours: the places kept for a gang, on one of its pods."""


def mark(meta: Meta, name: str) -> str:
    """What a label or else an annotation of that name says; nothing if neither is there."""
    return (meta.labels or {}).get(name) or (meta.annotations or {}).get(name) or ""
