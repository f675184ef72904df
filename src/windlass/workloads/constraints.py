"""Where a pod may run and where it would rather: its selectors in the engine's words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass.model.constraints import (
    Constraints,
    Effect,
    Expression,
    Operator,
    PodPreference,
    PodTerm,
    Preference,
    Spread,
    Term,
    Toleration,
)
from windlass.model.resources import pairs
from windlass.workloads import wire
from windlass.workloads.machines import NODE_NAME

NOTHING: Term = (
    Expression(NODE_NAME, Operator.EXISTS),
    Expression(NODE_NAME, Operator.DOES_NOT_EXIST),
)
"""A term that never holds."""
EVERYWHERE = "*"
_OPERATORS = frozenset(operator.value for operator in Operator)
_EFFECTS = frozenset(effect.value for effect in Effect)


def constraints_of(pod: wire.Pod) -> Constraints:
    """All that limits or directs where the pod runs, apart from its size."""
    spec, labels = pod.spec, pod.metadata.labels or {}
    affinity = spec.affinity or wire.Affinity()
    near, apart = affinity.pod_affinity, affinity.pod_anti_affinity
    return Constraints(
        selector=pairs(spec.node_selector or {}),
        affinity=_required(affinity.node_affinity),
        preferences=_preferred(affinity.node_affinity),
        tolerations=tuple(_tolerations(spec.tolerations or ())),
        near=tuple(_pod_terms(near, labels)),
        apart=tuple(_pod_terms(apart, labels)),
        pod_preferences=(*_pod_preferences(near, labels, 1), *_pod_preferences(apart, labels, -1)),
        spread=tuple(_spread(each, labels) for each in spec.topology_spread_constraints or ()),
    )


def _required(affinity: wire.NodeAffinity | None) -> tuple[Term, ...]:
    terms = affinity and affinity.required_during_scheduling_ignored_during_execution
    if not terms:
        return ()
    # a term without expressions matches no node; if all are like that, none will do
    found = tuple(term for each in terms.node_selector_terms or () if (term := _node_term(each)))
    return found or (NOTHING,)


def _preferred(affinity: wire.NodeAffinity | None) -> tuple[Preference, ...]:
    wishes = affinity and affinity.preferred_during_scheduling_ignored_during_execution
    return tuple(
        Preference(each.weight, term)
        for each in wishes or ()
        if (term := _node_term(each.preference))
    )


def _node_term(term: wire.NodeTerm) -> Term:
    return (*_expressions(term.match_expressions), *_expressions(term.match_fields))


def _expressions(requirements: Iterable[wire.Requirement] | None) -> tuple[Expression, ...]:
    return tuple(part for each in requirements or () for part in _expression(each))


def _expression(requirement: wire.Requirement) -> Term:
    # an operator of a later Kubernetes must not stop everybody: nothing satisfies it
    if requirement.operator not in _OPERATORS:
        return NOTHING
    values = tuple(requirement.values or ())
    return (Expression(requirement.key, Operator(requirement.operator), values),)


def _tolerations(tolerations: Iterable[wire.Toleration]) -> Iterable[Toleration]:
    for each in tolerations:
        # a comparison of numbers tolerates nothing here: too careful, never too bold
        if each.operator in ("", "Equal", "Exists") and each.effect in ("", *_EFFECTS):
            effect = Effect(each.effect) if each.effect else None
            yield Toleration(each.key, each.value, each.operator == "Exists", effect)


def _pod_terms(affinity: wire.PodAffinity | None, labels: Mapping[str, str]) -> Iterable[PodTerm]:
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return (_pod_term(each, labels) for each in required or ())


def _pod_preferences(
    affinity: wire.PodAffinity | None, labels: Mapping[str, str], sign: int
) -> Iterable[PodPreference]:
    wishes = affinity and affinity.preferred_during_scheduling_ignored_during_execution
    return (
        PodPreference(sign * each.weight, _pod_term(each.pod_affinity_term, labels))
        for each in wishes or ()
    )


def _pod_term(term: wire.PodTerm, labels: Mapping[str, str]) -> PodTerm:
    selector = _selector(term.label_selector)
    selector += _same(term.match_label_keys, labels, Operator.IN)
    selector += _same(term.mismatch_label_keys, labels, Operator.NOT_IN)
    # an empty namespace selector means every namespace; others are refused before they come here
    namespaces = (EVERYWHERE,) if term.namespace_selector else tuple(sorted(term.namespaces or ()))
    return PodTerm(selector, term.topology_key, namespaces)


def _spread(constraint: wire.SpreadConstraint, labels: Mapping[str, str]) -> Spread:
    selector = _selector(constraint.label_selector)
    selector += _same(constraint.match_label_keys, labels, Operator.IN)
    required = constraint.when_unsatisfiable == "DoNotSchedule"
    return Spread(constraint.topology_key, constraint.max_skew, selector, required)


def _selector(selector: wire.LabelSelector | None) -> Term:
    if selector is None:
        return NOTHING
    wanted = sorted((selector.match_labels or {}).items())
    exact = tuple(Expression(key, Operator.IN, (value,)) for key, value in wanted)
    return exact + _expressions(selector.match_expressions)


def _same(keys: Iterable[str] | None, labels: Mapping[str, str], operator: Operator) -> Term:
    """Expressions that compare with the pod's own labels."""
    return tuple(Expression(key, operator, (labels[key],)) for key in keys or () if key in labels)
