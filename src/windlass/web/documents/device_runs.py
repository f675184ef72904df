"""The GPUs of a task on its node, as runs of neighbouring GPUs that it has in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from windlass.model.gpu.mig import GEOMETRIES, profile_of
from windlass.model.gpus import WHOLE, Slice
from windlass.model.jobs import Task
from windlass.web.feed import ClusterView

_by_place = attrgetter("device", "start")


def places(task: Task, view: ClusterView, first: int) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield GPU, count, milli, left and width of every run; `first` is the node's first GPU."""
    for run, count in runs_of(task.devices):
        left, width = _place_on_device(view, task, run) if run.profile else (-1, 0)
        yield first + run.device, count, run.milli, left, width


def runs_of(slices: Sequence[Slice]) -> list[tuple[Slice, int]]:
    """Group neighbouring devices given in the same way; return the first of each and the count."""
    if not slices:
        return []
    first, most = slices[0], len(slices)
    # The usual case, whole neighbouring GPUs, is recognised without sorting.
    devices = [device.device for device in slices]
    alike = first.profile == "" and len({device.milli for device in slices}) == 1
    if alike and devices == list(range(first.device, first.device + most)):
        return [(first, most)]
    runs: list[tuple[Slice, int]] = []
    for device in sorted(slices, key=_by_place):
        begun, count = runs[-1] if runs else (device, 0)
        follows = count and not device.profile and not begun.profile
        if follows and (begun.device + count, begun.milli) == (device.device, device.milli):
            runs[-1] = begun, count + 1
        else:
            runs.append((device, 1))
    return runs


def _place_on_device(view: ClusterView, task: Task, part: Slice) -> tuple[int, int]:
    """Return the start and the width of a MIG instance, in thousandths; -1 and 0 without MIG."""
    node = view.nodes.get(task.node)
    if node is None or part.device >= len(node.gpus):
        return -1, 0
    model = node.gpus[part.device].model
    profile = profile_of(model, part.profile)
    if profile is None:
        return -1, 0
    units = GEOMETRIES[model].units
    return part.start * WHOLE // units, profile.size * WHOLE // units
