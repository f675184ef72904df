"""The draft: the working state of one cycle, on which everything is tried and undone.

Here belongs what a cycle changes and takes back: the columns and accounts inside attempts, the
places that are held for gangs, and running work as units that can be evicted. No decision is made
here: placing gangs belongs to `placement`, choosing victims to `preemption`. All of it is pure: no
I/O, no clock.

    draft            Draft: binds, releases and evictions with their undo
    holds            Holds: firm holds and reservations, and who may see past them
    eviction_units   EvictionUnit: the tasks of a gang that leave together
    restart_cost     the GPU time that is lost when work is displaced
"""

from windlass.engine.draft.draft import Draft
from windlass.engine.draft.eviction_units import EvictionUnit, Freed, RunningUnits, is_torn
from windlass.engine.draft.restart_cost import RESTART_S, frees_in, harm

__all__ = [
    "RESTART_S",
    "Draft",
    "EvictionUnit",
    "Freed",
    "RunningUnits",
    "frees_in",
    "harm",
    "is_torn",
]
