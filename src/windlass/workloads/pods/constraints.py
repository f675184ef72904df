"""Where a pod may run and where it would rather: its selectors in the engine's words."""

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
"""A term that never holds."""
EVERYWHERE = "*"
NOWHERE = ""
"""No namespace is called that."""
_OPERATORS = frozenset(operator.value for operator in Operator)
_EFFECTS = frozenset(effect.value for effect in Effect)

Namespaces: TypeAlias = Mapping[str, Mapping[str, str]]
"""The labels of all namespaces, by name."""


def constraints_of(pod: wire.Pod, namespaces: Namespaces | None = None) -> Constraints:
    """All that limits or directs where the pod runs, apart from its size."""
    spec, labels = pod.spec, pod.metadata.labels or {}
    affinity = spec.affinity or wire.Affinity()
    near, apart = affinity.pod_affinity, affinity.pod_anti_affinity
    seen = _Seen(labels, namespaces or {})
    return Constraints(
        selector=pairs(spec.node_selector or {}),
        affinity=_required(affinity.node_affinity),
        preferences=_preferred(affinity.node_affinity),
        tolerations=tuple(_tolerations(spec.tolerations or ())),
        near=tuple(_pod_terms(near, seen)),
        apart=tuple(_pod_terms(apart, seen)),
        pod_preferences=(*_pod_preferences(near, seen, 1), *_pod_preferences(apart, seen, -1)),
        spread=tuple(_spread(each, labels) for each in spec.topology_spread_constraints or ()),
    )


def _required(affinity: wire.NodeAffinity | None) -> tuple[Term, ...]:
    terms = affinity and affinity.required_during_scheduling_ignored_during_execution
    return any_of(terms) if terms else ()


def any_of(terms: wire.NodeTerms) -> tuple[Term, ...]:
    """Terms about a node of which one must hold."""
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


def _expressions(requirements: Iterable[wire.SelectorRequirement] | None) -> tuple[Expression, ...]:
    return tuple(part for each in requirements or () for part in _expression(each))


def _expression(requirement: wire.SelectorRequirement) -> Term:
    # an operator of a later Kubernetes must not stop everybody: nothing satisfies it
    if requirement.operator not in _OPERATORS:
        return NOTHING
    values = tuple(requirement.values or ())
    return (Expression(requirement.key, Operator(requirement.operator), values),)


def _tolerations(tolerations: Iterable[wire.TolerationSpec]) -> Iterable[Toleration]:
    for each in tolerations:
        # a comparison of numbers tolerates nothing here: too careful, never too bold
        if each.operator in ("", "Equal", "Exists") and each.effect in ("", *_EFFECTS):
            effect = Effect(each.effect) if each.effect else None
            yield Toleration(each.key, each.value, each.operator == "Exists", effect)


class _Seen(NamedTuple):
    """What a term about pods refers to: its owner's labels, and the namespaces that there are."""

    labels: Mapping[str, str]
    namespaces: Namespaces


def _pod_terms(affinity: wire.PodAffinity | None, seen: _Seen) -> Iterable[PodTerm]:
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    return (_pod_term(each, seen) for each in required or ())


def _pod_preferences(
    affinity: wire.PodAffinity | None, seen: _Seen, sign: int
) -> Iterable[PodPreference]:
    wishes = affinity and affinity.preferred_during_scheduling_ignored_during_execution
    return (
        PodPreference(sign * each.weight, _pod_term(each.pod_affinity_term, seen))
        for each in wishes or ()
    )


def _pod_term(term: wire.PodAffinityTerm, seen: _Seen) -> PodTerm:
    selector = selector_of(term.label_selector)
    selector += _same(term.match_label_keys, seen.labels, Operator.IN)
    selector += _same(term.mismatch_label_keys, seen.labels, Operator.NOT_IN)
    return PodTerm(selector, term.topology_key, _namespaces(term, seen.namespaces))


def _namespaces(term: wire.PodAffinityTerm, there: Namespaces) -> tuple[str, ...]:
    """The namespaces that a term looks at, by name; none: its owner's own."""
    named = set(term.namespaces or ())
    if term.namespace_selector is None:
        return tuple(sorted(named))
    wanted = selector_of(term.namespace_selector)
    if not wanted:
        return (EVERYWHERE,)
    chosen = {name for name, labels in there.items() if matches(wanted, labels)}
    return tuple(sorted(named | chosen)) or (NOWHERE,)


def _spread(constraint: wire.SpreadConstraint, labels: Mapping[str, str]) -> Spread:
    selector = selector_of(constraint.label_selector)
    selector += _same(constraint.match_label_keys, labels, Operator.IN)
    return Spread(
        constraint.topology_key,
        constraint.max_skew,
        # to kube-scheduler a spread that selects by nothing at all counts nobody
        selector or NOTHING,
        required=constraint.when_unsatisfiable == "DoNotSchedule",
        min_domains=constraint.min_domains or 1,
        heeds_affinity=constraint.node_affinity_policy != "Ignore",
        heeds_taints=constraint.node_taints_policy == "Honor",
    )


def selector_of(selector: wire.LabelSelector | None) -> Term:
    """A selector of labels as a term; none at all matches nothing."""
    if selector is None:
        return NOTHING
    wanted = sorted((selector.match_labels or {}).items())
    exact = tuple(Expression(key, Operator.IN, (value,)) for key, value in wanted)
    return exact + _expressions(selector.match_expressions)


def _same(keys: Iterable[str] | None, labels: Mapping[str, str], operator: Operator) -> Term:
    """Expressions that compare with the pod's own labels."""
    return tuple(Expression(key, operator, (labels[key],)) for key in keys or () if key in labels)
