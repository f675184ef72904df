"""The draft: the working state of one cycle, on which everything is tried and undone.

Belongs here: everything that a cycle changes and undoes again (columns and accounts, in attempts),
the places that are held for gangs, and running work as units that can be evicted. Does not belong
here: decisions. `placement` places gangs, `preemption` chooses victims. No I/O, no clock.

    draft            Draft: binds, releases and evictions with their undo
    holds            Holds: firm holds and reservations, and the gangs that may use their places
    eviction_units   EvictionUnit: the tasks of a gang that are evicted together
    restart_cost     the GPU time that victims have to spend again
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
