"""Explanations: why gangs wait, and what they could preempt.

Belongs here: answers for people that are derived from the rules of the other packages. Does not
belong here: the rules themselves, and text for one interface (CLI, web, pod events). No I/O.

    reasons                 the decisions of a plan, with reasons; the only module that a cycle uses
    preemption_preview      the victims that a waiting gang could have, and the rules against others
"""

from windlass.engine.explain.preemption_preview import (
    Blocker,
    PreemptionPreview,
    QueueComparison,
    QueueSide,
    preview_preemption,
)
from windlass.engine.explain.reasons import decide, eviction_decisions

__all__ = [
    "Blocker",
    "PreemptionPreview",
    "QueueComparison",
    "QueueSide",
    "decide",
    "eviction_decisions",
    "preview_preemption",
]
