"""Where a task may run and where it would rather: the words of Kubernetes, as plain data."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from windlass.model.resources import Pairs

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")

HOSTNAME = "kubernetes.io/hostname"
"""The label that makes each node a domain of its own."""


class Operator(StrEnum):
    """How an expression compares a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Effect(StrEnum):
    """What a taint does to tasks that do not tolerate it."""

    NO_SCHEDULE = "NoSchedule"
    PREFER_NO_SCHEDULE = "PreferNoSchedule"
    NO_EXECUTE = "NoExecute"


@dataclass(frozen=True, slots=True)
class Taint:
    """A node's refusal of tasks that do not tolerate it."""

    key: str
    value: str = ""
    effect: Effect = Effect.NO_SCHEDULE


CORDON = Taint("node.kubernetes.io/unschedulable")
"""What a node that somebody cordoned says; who tolerates it may still come."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A task's acceptance of taints; an empty key tolerates every one, no effect means all."""

    key: str = ""
    value: str = ""
    exists: bool = False
    effect: Effect | None = None


@dataclass(frozen=True, slots=True)
class Expression:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()


Term: TypeAlias = tuple[Expression, ...]
"""Expressions that must all hold."""


@dataclass(frozen=True, slots=True)
class Preference:
    """A term worth `weight` points (1 to 100) where it holds."""

    weight: int
    term: Term


@dataclass(frozen=True, slots=True)
class PodTerm:
    """Tasks that match `selector`, seen from the domains of `topology_key`.

    Without namespaces the term looks at tasks of its owner's namespace; "*" means all, and "",
    which nobody can call a namespace, none.
    """

    selector: Term
    topology_key: str
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodPreference:
    """A wish to be near tasks (positive weight) or away from them (negative)."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class Spread:
    """Keep matching tasks even over domains: no more than `max_skew` above the emptiest.

    Tasks on their way out do not count. Nodes that lack the label of any required spread of the
    task do not count either, nor those that its selector and affinity, or its tolerations, rule
    out, as far as they are heeded.
    """

    topology_key: str
    max_skew: int
    selector: Term
    required: bool = True
    min_domains: int = 1
    """With fewer domains the emptiest one counts as empty."""
    heeds_affinity: bool = True
    heeds_taints: bool = False


@dataclass(frozen=True, slots=True)
class Constraints:
    """All that limits or directs where a task runs, apart from its size."""

    selector: Pairs = ()
    affinity: tuple[Term, ...] = ()
    """Required; one of the terms must hold. None given: any node."""
    preferences: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    near: tuple[PodTerm, ...] = ()
    apart: tuple[PodTerm, ...] = ()
    pod_preferences: tuple[PodPreference, ...] = ()
    spread: tuple[Spread, ...] = ()
    reach: tuple[tuple[Term, ...], ...] = ()
    """For each of its volumes, terms of which one must hold where it can be reached."""


def holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    """Does a set of labels satisfy the expression?"""
    value = labels.get(expression.key)
    match expression.operator:
        case Operator.IN:
            return value is not None and value in expression.values
        case Operator.NOT_IN:
            return value is None or value not in expression.values
        case Operator.EXISTS:
            return value is not None
        case Operator.DOES_NOT_EXIST:
            return value is None
        case Operator.GT:
            return _number(value) is not None and _compare(value, expression.values) > 0
        case Operator.LT:
            return _number(value) is not None and _compare(value, expression.values) < 0


def matches(term: Term, labels: Mapping[str, str]) -> bool:
    """Do all expressions of a term hold?"""
    return all(holds(each, labels) for each in term)


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Does any toleration accept the taint?"""
    return any(
        (each.effect is None or each.effect == taint.effect)
        and (not each.key or each.key == taint.key)
        and (each.exists or not each.key or each.value == taint.value)
        for each in tolerations
    )


def _compare(value: str | None, bounds: tuple[str, ...]) -> int:
    bound = _number(bounds[0]) if len(bounds) == 1 else None
    if bound is None:
        return 0
    number = _number(value)
    return 0 if number is None else (number > bound) - (number < bound)


def _number(text: str | None) -> int | None:
    # as long as Kubernetes reads it: 64 bits, and plain digits after one sign
    is_number = text is not None and _INTEGER.fullmatch(text) is not None
    return int(text) if text is not None and is_number else None
