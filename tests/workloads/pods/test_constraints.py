"""The constraints of a pod, read from Kubernetes selectors and checked against nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.kube_given import container, node, pod
from windlass.model.constraints import (
    Effect,
    Expression,
    Operator,
    PodTerm,
    Spread,
    Toleration,
    matches,
    tolerates,
)
from windlass.model.reasons import ReasonCode
from windlass.workloads.nodes.offers import node_of
from windlass.workloads.pods.constraints import NOTHING, constraints_of
from windlass.workloads.pods.task import refusal_of, shape_of

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def requires(*terms: dict[str, Any]) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def expression(key: str, operator: str, *values: str) -> dict[str, Any]:
    return {"key": key, "operator": operator, "values": list(values)}


def accepts(affinity: dict[str, Any], name: str = "n1", **labels: str) -> bool:
    """Return whether a node satisfies the required terms of a pod."""
    found = constraints_of(pod("p", affinity=affinity)).affinity
    there = node_of(node(name, labels=labels)).labels
    return not found or any(matches(term, there) for term in found)


# --- nodes


def test_a_node_selector_is_sorted_by_label():
    assert constraints_of(pod("p", nodeSelector={"b": "2", "a": "1"})).selector == (
        ("a", "1"),
        ("b", "2"),
    )


def test_one_node_term_must_hold_with_all_its_expressions():
    east = {"matchExpressions": [expression("zone", "In", "east"), expression("big", "Exists")]}
    west = {"matchExpressions": [expression("zone", "In", "west")]}
    assert accepts(requires(east, west), zone="west")
    assert accepts(requires(east, west), zone="east", big="yes")
    assert not accepts(requires(east, west), zone="east")


def test_a_term_without_expressions_matches_no_node():
    assert not accepts(requires({}))
    west = {"matchExpressions": [expression("zone", "In", "west")]}
    assert accepts(requires({}, west), zone="west")
    assert not accepts(requires({}, west), zone="east")


def test_a_pod_whose_terms_match_no_node_waits_and_is_not_invalid():
    found = pod("p", affinity=requires({}))
    assert refusal_of(found, shape_of(found)) is None


def test_match_fields_select_a_node_by_name():
    here = {"matchFields": [expression("metadata.name", "In", "n1")]}
    assert accepts(requires(here), name="n1")
    assert not accepts(requires(here), name="n2")


@pytest.mark.parametrize(("operator", "at_most"), [("Gt", "8"), ("Lt", "8")])
def test_labels_are_compared_as_numbers(operator: str, at_most: str):
    term = {"matchExpressions": [expression("gpus", operator, at_most)]}
    assert accepts(requires(term), gpus="16") == (operator == "Gt")
    assert accepts(requires(term), gpus="4") == (operator == "Lt")
    assert not accepts(requires(term), gpus="8")


def test_a_comparison_with_a_value_that_is_no_number_gives_a_reason():
    term = {"matchExpressions": [expression("gpus", "Gt", "many")]}
    found = pod("p", affinity=requires(term))
    reason = refusal_of(found, shape_of(found))
    assert reason is not None
    assert reason.why is ReasonCode.UNREADABLE
    assert "a whole number" in str(reason)


def test_an_unknown_operator_matches_no_node():
    assert not accepts(requires({"matchExpressions": [expression("zone", "Like", "e*")]}), zone="e")


def test_an_empty_preference_is_ignored():
    near = {"matchExpressions": [expression("zone", "In", "west")]}
    wishes = [{"weight": 5, "preference": {}}, {"weight": 7, "preference": near}]
    found = constraints_of(pod("p", affinity={"nodeAffinity": {PREFERRED: wishes}}))
    assert [(each.weight, each.term[0].key) for each in found.preferences] == [(7, "zone")]


# --- taints


def welcome(taint: dict[str, str], *tolerations: dict[str, Any]) -> bool:
    found = constraints_of(pod("p", tolerations=list(tolerations))).tolerations
    return all(tolerates(found, each) for each in node_of(node("n1", taints=[taint])).taints)


DEDICATED = {"key": "dedicated", "value": "ml", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "dedicated", "value": "ml", "effect": "NoSchedule"},
        {"key": "dedicated", "operator": "Equal", "value": "ml"},
        {"key": "dedicated", "operator": "Exists"},
        {"operator": "Exists"},
    ],
)
def test_a_matching_toleration_admits_a_tainted_node(toleration: dict[str, Any]):
    assert welcome(DEDICATED, toleration)


@pytest.mark.parametrize(
    "toleration",
    [
        {"key": "dedicated", "value": "web"},
        {"key": "other", "operator": "Exists"},
        {"key": "dedicated", "operator": "Exists", "effect": "NoExecute"},
        {"key": "dedicated", "operator": "Gt", "value": "1"},
        {"key": "dedicated", "operator": "Exists", "effect": "NoFuture"},
    ],
)
def test_another_toleration_does_not_admit_it(toleration: dict[str, Any]):
    assert not welcome(DEDICATED, toleration)


def test_tolerations_keep_their_effect_and_operator():
    written = [{"key": "a", "operator": "Exists", "effect": "NoExecute"}]
    found = constraints_of(pod("p", tolerations=written)).tolerations
    assert found == (Toleration("a", "", True, Effect.NO_EXECUTE),)


# --- other pods


def term(**fields: Any) -> dict[str, Any]:
    return {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "web"}}} | fields


WEB = Expression("app", Operator.IN, ("web",))


def apart_of(written: dict[str, Any], **labels: str) -> PodTerm:
    affinity = {"podAntiAffinity": {REQUIRED: [written]}}
    return constraints_of(pod("p", affinity=affinity, labels=labels)).apart[0]


def test_a_pod_term_covers_its_own_namespace_unless_it_names_others():
    assert apart_of(term()) == PodTerm((WEB,), "zone")
    assert apart_of(term(namespaces=["b", "a"])) == PodTerm((WEB,), "zone", ("a", "b"))


def test_an_empty_namespace_selector_means_every_namespace():
    assert apart_of(term(namespaceSelector={})) == PodTerm((WEB,), "zone", ("*",))


def test_selected_namespaces_are_added_to_the_named_ones():
    there = {"a": {"team": "x"}, "b": {"team": "y"}, "c": {"team": "x"}}
    written = term(namespaceSelector={"matchLabels": {"team": "x"}}, namespaces=["z"])
    found = constraints_of(pod("p", affinity={"podAntiAffinity": {REQUIRED: [written]}}), there)
    assert found.apart[0].namespaces == ("a", "c", "z")


def test_a_pod_term_that_selects_no_namespace_matches_no_pod():
    written = term(namespaceSelector={"matchLabels": {"team": "x"}})
    assert apart_of(written).namespaces == ("",)


def test_match_label_keys_compare_with_the_labels_of_the_pod():
    found = apart_of(term(matchLabelKeys=["rev", "gone"], mismatchLabelKeys=["team"]), rev="7")
    assert found.selector == (WEB, Expression("rev", Operator.IN, ("7",)))
    other = apart_of(term(mismatchLabelKeys=["team"]), team="x")
    assert other.selector == (WEB, Expression("team", Operator.NOT_IN, ("x",)))


def test_a_missing_selector_matches_no_pod_and_an_empty_one_all():
    none, all_of_them = apart_of(term(labelSelector=None)), apart_of(term(labelSelector={}))
    assert none.selector == NOTHING
    assert not matches(none.selector, {"app": "web", "metadata.name": "x"})
    assert matches(all_of_them.selector, {"app": "web"})


def test_a_pod_whose_terms_match_no_pod_is_not_refused():
    found = pod(
        "p",
        affinity={"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}},
        topologySpreadConstraints=[{"topologyKey": "zone", "maxSkew": 1}],
    )
    assert refusal_of(found, shape_of(found)) is None


def test_preferred_affinity_is_positive_and_anti_affinity_negative():
    wish = {"weight": 3, "podAffinityTerm": term()}
    affinity = {"podAffinity": {PREFERRED: [wish]}, "podAntiAffinity": {PREFERRED: [wish]}}
    found = constraints_of(pod("p", affinity=affinity))
    assert [each.weight for each in found.pod_preferences] == [3, -3]


def test_a_spread_is_required_unless_it_is_schedule_anyway():
    written = term(maxSkew=2)
    soft = written | {"whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["rev"]}
    labels = {"rev": "7"}
    found = constraints_of(pod("p", topologySpreadConstraints=[written, soft], labels=labels))
    rev = Expression("rev", Operator.IN, ("7",))
    assert found.spread == (Spread("zone", 2, (WEB,)), Spread("zone", 2, (WEB, rev), False))


def test_a_spread_has_node_policies_and_a_minimum_of_domains():
    written = term(minDomains=3, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor")
    (found,) = constraints_of(pod("p", topologySpreadConstraints=[written])).spread
    assert (found.min_domains, found.heeds_affinity, found.heeds_taints) == (3, False, True)


def test_a_spread_without_a_selector_counts_no_pods():
    written = term(labelSelector={})
    (found,) = constraints_of(pod("p", topologySpreadConstraints=[written])).spread
    assert found.selector == NOTHING


# --- what is left out for now


HOST_PORT = [{"containerPort": 80, "hostPort": 80}]
RESTART_ALL = {"action": "RestartAllContainers", "exitCodes": {"operator": "In", "values": [1]}}


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claims"),
        ({"volumes": [{"name": "v", "rbd": {"image": "i"}}]}, "a disk that is named"),
        ({"hostNetwork": True, "hostUsers": False}, "together with users of its own"),
        (
            {"containers": [container() | {"restartPolicyRules": [RESTART_ALL]}]},
            "restarts all its containers",
        ),
    ],
)
def test_unsupported_features_give_a_reason(spec: dict[str, Any], words: str):
    found = pod("p", **spec)
    reason = refusal_of(found, shape_of(found))
    assert reason is not None
    assert reason.why is ReasonCode.LEFT_OUT
    assert words in str(reason)


@pytest.mark.parametrize(
    "spec",
    [
        {"volumes": [{"name": "v", "emptyDir": {}}, {"name": "c", "configMap": {"name": "c"}}]},
        {"initContainers": [container("i") | {"ports": HOST_PORT}]},
        {"hostNetwork": True},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "minDomains": 1}]},
    ],
)
def test_features_that_do_not_affect_the_node_are_accepted(spec: dict[str, Any]):
    found = pod("p", **spec)
    assert refusal_of(found, shape_of(found)) is None
