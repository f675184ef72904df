"""Shapes of pods, worked out once: thousands of pods are made from a few templates.

Reading a pod's needs takes longer than comparing them as bytes. Pods of equal needs also share one
shape, which the engine then recognises without looking into it.
"""

from __future__ import annotations

import msgspec

from windlass.model.jobs import Shape
from windlass.workloads.pods import shape_of
from windlass.workloads.requests import RESIZE
from windlass.workloads.wire import Pod, condition

MOST = 500
"""Templates that are remembered; then it begins anew."""


class Shapes:
    """What pods ask for and where they may run, by what they say about it."""

    def __init__(self) -> None:
        self._known: dict[bytes, Shape] = {}
        self._encode = msgspec.msgpack.Encoder().encode

    def of(self, pod: Pod) -> Shape:
        """The shape of a pod, as it is now: a resize changes it."""
        key = self._encode(_needs(pod))
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= MOST:
                self._known.clear()
            found = self._known[key] = shape_of(pod)
        return found


def _needs(pod: Pod) -> tuple[object, ...]:
    """All that `shape_of` looks at."""
    spec, status = pod.spec, pod.status
    near = (spec.affinity, spec.topology_spread_constraints)
    labels = pod.metadata.labels if any(near) else None  # terms may refer to the pod's own labels
    asked = (spec.containers, spec.init_containers, spec.resources, spec.overhead)
    given = (status.container_statuses, status.init_container_statuses)
    resized = (status.resources, status.allocated_resources, condition(pod, RESIZE))
    return (*asked, spec.node_selector, spec.tolerations, *near, labels, *given, *resized)
