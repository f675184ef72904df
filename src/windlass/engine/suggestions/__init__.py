"""Suggestions: the smallest changes that would start a waiting gang now.

Belongs here: one function per kind of change, the tables of them, and the search for the smallest
change of each kind, which plans for changed copies of the cluster. Does not belong here: any rule
of the engine. It is above `cycle`; nothing in the engine imports it. No I/O.

    suggest         the smallest change of each kind, tried with a plan
    delayed_reservations    the reservations that a change would delay
    catalog         the types that all kinds share
    job             changes of a job's order and size
    placement       changes of the nodes that a job may run on
    surroundings    changes of queues, settings and other gangs
"""

from windlass.engine.suggestions.catalog import ChangeKind
from windlass.engine.suggestions.suggest import MOST_TOLD, Suggestions, suggest

__all__ = ["MOST_TOLD", "ChangeKind", "Suggestions", "suggest"]
