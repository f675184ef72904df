"""Constraints on where a task may run, and preferences: the terms of Kubernetes as plain data."""

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
    """The comparison of an expression with a label."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


class Effect(StrEnum):
    """The effect of a taint on tasks that do not tolerate it."""

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
"""The taint of a cordoned node; tasks that tolerate it may still be placed there."""


@dataclass(frozen=True, slots=True)
class Toleration:
    """A task's acceptance of taints; an empty key matches all keys, no effect all effects."""

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
    """A term about the tasks that match `selector`, in the domains of `topology_key`.

    Without namespaces the term looks at tasks of its owner's namespace. "*" means all namespaces;
    "", which cannot be the name of one, means none.
    """

    selector: Term
    topology_key: str
    namespaces: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PodPreference:
    """A preference to be near tasks (positive weight) or away from them (negative)."""

    weight: int
    term: PodTerm


@dataclass(frozen=True, slots=True)
class Spread:
    """A topology spread: no domain has more than `max_skew` matching tasks above the emptiest.

    Releasing tasks do not count. A node does not count if it lacks the label of any required spread
    of the task, or if the selector and affinity (`heeds_affinity`) or the tolerations
    (`heeds_taints`) of the task exclude it.
    """

    topology_key: str
    max_skew: int
    selector: Term
    required: bool = True
    min_domains: int = 1
    """With fewer domains than this, the emptiest one counts as having no task."""
    heeds_affinity: bool = True
    heeds_taints: bool = False


@dataclass(frozen=True, slots=True)
class Constraints:
    """All constraints and preferences of a task, apart from its request."""

    selector: Pairs = ()
    affinity: tuple[Term, ...] = ()
    """Required node affinity: one of the terms must hold. Empty: any node."""
    preferences: tuple[Preference, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    near: tuple[PodTerm, ...] = ()
    """Required pod affinity: all terms must hold."""
    apart: tuple[PodTerm, ...] = ()
    """Required pod anti-affinity: all terms must hold."""
    pod_preferences: tuple[PodPreference, ...] = ()
    spread: tuple[Spread, ...] = ()
    reach: tuple[tuple[Term, ...], ...] = ()
    """For each of its volumes, terms of which one must hold on a node that can reach it."""


def expression_holds(expression: Expression, labels: Mapping[str, str]) -> bool:
    """Return whether a set of labels satisfies the expression."""
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
    """Return whether all expressions of a term hold."""
    return all(expression_holds(expression, labels) for expression in term)


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Return whether any toleration accepts the taint."""
    return any(
        (own.effect is None or own.effect == taint.effect)
        and (not own.key or own.key == taint.key)
        and (own.exists or not own.key or own.value == taint.value)
        for own in tolerations
    )


def _compare(value: str | None, bounds: tuple[str, ...]) -> int:
    """Return the sign of value minus bound; 0, which satisfies neither Gt nor Lt, if unreadable."""
    bound = _number(bounds[0]) if len(bounds) == 1 else None
    if bound is None:
        return 0
    number = _number(value)
    return 0 if number is None else (number > bound) - (number < bound)


def _number(text: str | None) -> int | None:
    # As Kubernetes reads it: 64 bits, plain digits after at most one sign.
    is_number = text is not None and _INTEGER.fullmatch(text) is not None
    return int(text) if text is not None and is_number else None
