"""What a task has of the GPUs of its node, as runs of neighbours that it has in the same way."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from operator import attrgetter

from windlass.model.gpus import WHOLE, Slice
from windlass.model.jobs import Task
from windlass.model.mig import GEOMETRIES, profile_of
from windlass.web.feed.view import ClusterView

_by_place = attrgetter("device", "start")


def places(task: Task, look: ClusterView, first: int) -> Iterator[tuple[int, int, int, int, int]]:
    """GPU, count, milli, left and width of every run."""
    for each, count in runs_of(task.devices):
        left, width = _place_on_device(look, task, each) if each.profile else (-1, 0)
        yield first + each.device, count, each.milli, left, width


def runs_of(slices: Sequence[Slice]) -> list[tuple[Slice, int]]:
    """Neighbouring devices given in the same way, as their first and how many."""
    if not slices:
        return []
    first, most = slices[0], len(slices)
    devices = [each.device for each in slices]
    alike = first.profile == "" and len({each.milli for each in slices}) == 1
    if alike and devices == list(range(first.device, first.device + most)):
        return [(first, most)]
    found: list[tuple[Slice, int]] = []
    for each in sorted(slices, key=_by_place):
        begun, count = found[-1] if found else (each, 0)
        follows = count and not each.profile and not begun.profile
        if follows and (begun.device + count, begun.milli) == (each.device, each.milli):
            found[-1] = begun, count + 1
        else:
            found.append((each, 1))
    return found


def _place_on_device(look: ClusterView, task: Task, each: Slice) -> tuple[int, int]:
    """Where a MIG instance lies and how wide it is, in thousandths; -1 without MIG."""
    node = look.nodes.get(task.node)
    if node is None or each.device >= len(node.gpus):
        return -1, 0
    model = node.gpus[each.device].model
    profile = profile_of(model, each.profile)
    if profile is None:
        return -1, 0
    units = GEOMETRIES[model].units
    return each.start * WHOLE // units, profile.size * WHOLE // units
