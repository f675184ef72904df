"""What pass two decided: who goes for whom, and for whom it was sought in vain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from windlass.engine.preemption.search import SearchOutcome
from windlass.engine.queueing.progress import Progress
from windlass.model.actions import Evict, HoldYielded
from windlass.model.jobs import GangId
from windlass.state.snapshot import FailedSearch


@dataclass(slots=True)
class PreemptionResult:
    """What pass two decided."""

    repaired: frozenset[GangId] = frozenset()
    """Gangs that got back what they lack; none of them is stale."""
    grows: bool = False
    """Is it about growth?"""
    evictions: list[Evict] = field(default_factory=list[Evict])
    outcomes: list[SearchOutcome] = field(default_factory=list[SearchOutcome])
    searched: dict[GangId, FailedSearch] = field(default_factory=dict[GangId, FailedSearch])
    """The gangs for which others could not be displaced, and when that was found out."""
    wake_at: int | None = None

    decided: set[GangId] = field(default_factory=set[GangId])
    """The gangs that lose members, or for which places are kept."""

    def may_grow(self, growing: Iterable[Progress]) -> Iterable[Progress]:
        """The gangs about which nothing has been decided that growing would contradict."""
        return (each for each in growing if each.gang.id not in self.decided)

    def for_growth(self, joined: frozenset[GangId]) -> PreemptionResult:
        """What is to be known where room is made for growth; these gangs got what they lack."""
        return replace(self, grows=True, repaired=joined)

    def then(self, later: PreemptionResult) -> PreemptionResult:
        """Both together."""
        instants = [each for each in (self.wake_at, later.wake_at) if each is not None]
        return PreemptionResult(
            evictions=self.evictions + later.evictions,
            outcomes=self.outcomes + later.outcomes,
            searched=self.searched | later.searched,
            wake_at=min(instants, default=None),
            decided=self.decided | later.decided,
        )

    def gave_way(self) -> tuple[HoldYielded, ...]:
        """The holds of borrowers that end for others."""
        return tuple(
            HoldYielded(gang, each.progress.gang.id)
            for each in self.outcomes
            for gang in each.gave_way
        )

    def in_vain(self) -> tuple[FailedSearch, ...]:
        """The searches that failed, as they are kept."""
        return tuple(each for _, each in sorted(self.searched.items()))
