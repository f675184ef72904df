"""Check PodDisruptionBudgets for several pods at once.

The Eviction API checks one pod at a time, so a trial of each pod of a gang may pass although the
budget does not allow all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from windlass.model.constraints import matches
from windlass.workloads.objects import LabelSelector, Owner, count
from windlass.workloads.pods import selector_of


def allow(budgets: Iterable[Owner], pods: Iterable[Mapping[str, str]]) -> bool:
    """Return whether every budget allows as many disruptions as it selects of these pods.

    Each pod is given by its labels; all are of the namespace of the budgets. A budget whose
    selector cannot be read allows nothing.
    """
    pods = list(pods)
    for budget in budgets:
        try:
            selector = msgspec.convert(budget.spec.get("selector"), LabelSelector | None)
        except msgspec.ValidationError:
            return False
        term = selector_of(selector)
        selected = sum(matches(term, labels) for labels in pods)
        if selected > count(budget.status, "disruptionsAllowed", 0):
            return False
    return True
