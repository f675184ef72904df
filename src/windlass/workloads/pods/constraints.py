"""The constraints and preferences of a pod on nodes and other pods, converted to the model."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple, TypeAlias

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
    matches,
)
from windlass.model.resources import pairs
from windlass.workloads.objects import wire

NODE_NAME = "metadata.name"
"""The key under which a node's name is added to its labels, so that terms by field can match it."""
NOTHING: Term = (
    Expression(NODE_NAME, Operator.EXISTS),
    Expression(NODE_NAME, Operator.DOES_NOT_EXIST),
)
"""A term that never holds: the name must exist and must not."""
EVERYWHERE = "*"
"""In the namespaces of a pod term: all of them."""
NOWHERE = ""
"""In the namespaces of a pod term: none of them, for no namespace has this name."""
_OPERATORS = frozenset(operator.value for operator in Operator)
_EFFECTS = frozenset(effect.value for effect in Effect)

Namespaces: TypeAlias = Mapping[str, Mapping[str, str]]
"""The labels of all namespaces, by name."""


def constraints_of(pod: wire.Pod, namespaces: Namespaces | None = None) -> Constraints:
    """Return everything that constrains the node of a pod, apart from its resource request.

    `namespaces` resolves terms that select namespaces by label; without it they match none.
    """
    spec, labels = pod.spec, pod.metadata.labels or {}
    affinity = spec.affinity or wire.Affinity()
    near, apart = affinity.pod_affinity, affinity.pod_anti_affinity
    context = _TermContext(labels, namespaces or {})
    return Constraints(
        selector=pairs(spec.node_selector or {}),
        affinity=_required(affinity.node_affinity),
        preferences=_preferred(affinity.node_affinity),
        tolerations=tuple(_tolerations(spec.tolerations or ())),
        near=tuple(_pod_terms(near, context)),
        apart=tuple(_pod_terms(apart, context)),
        pod_preferences=(
            *_pod_preferences(near, context, 1),
            *_pod_preferences(apart, context, -1),
        ),
        spread=tuple(
            _spread(constraint, labels) for constraint in spec.topology_spread_constraints or ()
        ),
    )


def _required(affinity: wire.NodeAffinity | None) -> tuple[Term, ...]:
    terms = affinity and affinity.required_during_scheduling_ignored_during_execution
    return any_of(terms) if terms else ()


def any_of(terms: wire.NodeTerms) -> tuple[Term, ...]:
    """Return the terms of a node selector, of which at least one must hold."""
    # A term without expressions matches no node. If there is no other, no node matches at all.
    converted = (_node_term(term) for term in terms.node_selector_terms or ())
    return tuple(term for term in converted if term) or (NOTHING,)


def _preferred(affinity: wire.NodeAffinity | None) -> tuple[Preference, ...]:
    preferred = affinity and affinity.preferred_during_scheduling_ignored_during_execution
    return tuple(
        Preference(weighted.weight, term)
        for weighted in preferred or ()
        if (term := _node_term(weighted.preference))
    )


def _node_term(term: wire.NodeTerm) -> Term:
    return (*_expressions(term.match_expressions), *_expressions(term.match_fields))


def _expressions(requirements: Iterable[wire.SelectorRequirement] | None) -> tuple[Expression, ...]:
    return tuple(part for requirement in requirements or () for part in _expression(requirement))


def _expression(requirement: wire.SelectorRequirement) -> Term:
    # An operator of a later Kubernetes must not stop the scheduler: no node satisfies it.
    if requirement.operator not in _OPERATORS:
        return NOTHING
    values = tuple(requirement.values or ())
    return (Expression(requirement.key, Operator(requirement.operator), values),)


def _tolerations(tolerations: Iterable[wire.TolerationSpec]) -> Iterable[Toleration]:
    for spec in tolerations:
        # Numeric operators are left out: the pod then tolerates less than it could, never more.
        if spec.operator in ("", "Equal", "Exists") and spec.effect in ("", *_EFFECTS):
            effect = Effect(spec.effect) if spec.effect else None
            yield Toleration(spec.key, spec.value, spec.operator == "Exists", effect)


class _TermContext(NamedTuple):
    """The context of a pod affinity term: the labels of its pod, and all namespaces."""

    labels: Mapping[str, str]
    namespaces: Namespaces


def _pod_terms(affinity: wire.PodAffinity | None, context: _TermContext) -> Iterable[PodTerm]:
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return (_pod_term(term, context) for term in required or ())


def _pod_preferences(
    affinity: wire.PodAffinity | None, context: _TermContext, sign: int
) -> Iterable[PodPreference]:
    preferred = affinity and affinity.preferred_during_scheduling_ignored_during_execution
    return (
        PodPreference(sign * weighted.weight, _pod_term(weighted.pod_affinity_term, context))
        for weighted in preferred or ()
    )


def _pod_term(term: wire.PodAffinityTerm, context: _TermContext) -> PodTerm:
    selector = selector_of(term.label_selector)
    selector += _same(term.match_label_keys, context.labels, Operator.IN)
    selector += _same(term.mismatch_label_keys, context.labels, Operator.NOT_IN)
    return PodTerm(selector, term.topology_key, _namespaces(term, context.namespaces))


def _namespaces(term: wire.PodAffinityTerm, namespaces: Namespaces) -> tuple[str, ...]:
    """Return the names of the namespaces that a term covers; empty: the namespace of its pod."""
    named = set(term.namespaces or ())
    if term.namespace_selector is None:
        return tuple(sorted(named))
    wanted = selector_of(term.namespace_selector)
    if not wanted:
        return (EVERYWHERE,)
    chosen = {name for name, labels in namespaces.items() if matches(wanted, labels)}
    return tuple(sorted(named | chosen)) or (NOWHERE,)


def _spread(constraint: wire.SpreadConstraint, labels: Mapping[str, str]) -> Spread:
    selector = selector_of(constraint.label_selector)
    selector += _same(constraint.match_label_keys, labels, Operator.IN)
    return Spread(
        constraint.topology_key,
        constraint.max_skew,
        # As in kube-scheduler: a spread constraint with an empty selector counts no pods.
        selector or NOTHING,
        required=constraint.when_unsatisfiable == "DoNotSchedule",
        min_domains=constraint.min_domains or 1,
        heeds_affinity=constraint.node_affinity_policy != "Ignore",
        heeds_taints=constraint.node_taints_policy == "Honor",
    )


def selector_of(selector: wire.LabelSelector | None) -> Term:
    """Return a label selector as a term; None gives a term that matches nothing."""
    if selector is None:
        return NOTHING
    wanted = sorted((selector.match_labels or {}).items())
    exact = tuple(Expression(key, Operator.IN, (value,)) for key, value in wanted)
    return exact + _expressions(selector.match_expressions)


def _same(keys: Iterable[str] | None, labels: Mapping[str, str], operator: Operator) -> Term:
    """Return expressions that compare with the values of the pod's own labels."""
    return tuple(Expression(key, operator, (labels[key],)) for key in keys or () if key in labels)
