"""When a gang would find room by itself: running work ends, as expected, and nobody is stopped."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from windlass.engine.draft.draft import Draft
from windlass.engine.placement.place import Placer
from windlass.engine.queueing.ordering_policies import OrderLevels
from windlass.engine.queueing.progress import Progress
from windlass.model.jobs import ACTIVE, GangId

NEVER = 1 << 60


def room_at(draft: Draft, placer: Placer, progress: Progress, leaving: Collection[GangId]) -> int:
    """The instant by which enough has ended, as far as that is expected; else `NEVER`.

    That others may be quicker to take the room is not looked at; nor is who is `leaving`, whose
    room is free already or promised.
    """
    ends = [
        (at, gang) for at, gang in draft.cluster.recall(OrderLevels).ends() if gang not in leaving
    ]
    low, high = 1, len(ends)
    if not ends or not _fits(draft, placer, progress, ends):
        return NEVER
    while low < high:
        middle = (low + high) // 2
        if _fits(draft, placer, progress, ends[:middle]):
            high = middle
        else:
            low = middle + 1
    return ends[low - 1][0]


def _fits(
    draft: Draft, placer: Placer, progress: Progress, ended: Sequence[tuple[int, GangId]]
) -> bool:
    members = draft.cluster.members
    with draft.attempt():
        draft.release_all(
            task for _, gang in ended for task in members(gang) if task.state in ACTIVE
        )
        return placer.place(progress.gang, progress.parts, progress.nodes, {})
