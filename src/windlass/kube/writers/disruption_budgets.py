"""Disruption budgets: may these pods go at the same time?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from windlass.model.constraints import matches
from windlass.workloads.objects.spec_fields import count
from windlass.workloads.objects.wire import LabelSelector, Owner
from windlass.workloads.pods.constraints import selector_of


def allow(budgets: Iterable[Owner], pods: Iterable[Mapping[str, str]]) -> bool:
    """Does every budget allow as many pods to go as it selects of these, by their labels?"""
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
