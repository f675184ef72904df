"""Placement: gangs on nodes, on a draft that can be undone.

Belongs here: the placement of whole gangs, on free capacity or on places that are held for them.
Does not belong here: evictions for others (`preemption`) and the score of single nodes (`nodes`).
No I/O.

    allocate        gangs in queue order on free capacity
    place           one gang: all tasks that must start together, or none
    nominated       binding a gang at the places that are held for it
    elastic         growth above the minimum, one task at a time
    reservations    places in the future for gangs that have waited too long
"""

from windlass.engine.placement.allocate import allocate
from windlass.engine.placement.elastic import grow
from windlass.engine.placement.place import Placer
from windlass.engine.placement.reservations import drop_broken, reserve

__all__ = ["Placer", "allocate", "drop_broken", "grow", "reserve"]
