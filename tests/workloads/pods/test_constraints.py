"""Where a pod may run: Kubernetes' selectors in the engine's words, asked of real nodes."""

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
    """Do the required terms of a pod hold for a node?"""
    found = constraints_of(pod("p", affinity=affinity)).affinity
    there = node_of(node(name, labels=labels)).labels
    return not found or any(matches(term, there) for term in found)


# --- nodes


def test_a_node_selector_is_kept_in_the_order_of_its_labels():
    assert constraints_of(pod("p", nodeSelector={"b": "2", "a": "1"})).selector == (
        ("a", "1"),
        ("b", "2"),
    )


def test_of_several_terms_one_must_hold_and_of_each_all_expressions():
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


def test_a_pod_whose_terms_match_no_node_waits_and_is_not_refused():
    found = pod("p", affinity=requires({}))
    assert refusal_of(found, shape_of(found)) is None


def test_a_node_can_be_chosen_by_its_name():
    here = {"matchFields": [expression("metadata.name", "In", "n1")]}
    assert accepts(requires(here), name="n1")
    assert not accepts(requires(here), name="n2")


@pytest.mark.parametrize(("operator", "at_most"), [("Gt", "8"), ("Lt", "8")])
def test_labels_are_compared_as_numbers(operator: str, at_most: str):
    term = {"matchExpressions": [expression("gpus", operator, at_most)]}
    assert accepts(requires(term), gpus="16") == (operator == "Gt")
    assert accepts(requires(term), gpus="4") == (operator == "Lt")
    assert not accepts(requires(term), gpus="8")


def test_a_comparison_with_no_number_is_told_to_its_owner():
    term = {"matchExpressions": [expression("gpus", "Gt", "many")]}
    found = pod("p", affinity=requires(term))
    reason = refusal_of(found, shape_of(found))
    assert reason is not None
    assert reason.why is ReasonCode.UNREADABLE
    assert "a whole number" in str(reason)


def test_an_operator_of_a_later_kubernetes_holds_nowhere():
    assert not accepts(requires({"matchExpressions": [expression("zone", "Like", "e*")]}), zone="e")


def test_a_wish_that_names_nothing_is_worth_nothing():
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
def test_a_toleration_opens_a_tainted_node(toleration: dict[str, Any]):
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
def test_another_toleration_does_not(toleration: dict[str, Any]):
    assert not welcome(DEDICATED, toleration)


def test_tolerations_keep_their_effect_and_how_they_compare():
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


def test_a_term_about_pods_looks_at_the_pods_own_namespace_unless_it_names_others():
    assert apart_of(term()) == PodTerm((WEB,), "zone")
    assert apart_of(term(namespaces=["b", "a"])) == PodTerm((WEB,), "zone", ("a", "b"))


def test_an_empty_namespace_selector_means_every_namespace():
    assert apart_of(term(namespaceSelector={})) == PodTerm((WEB,), "zone", ("*",))


def test_namespaces_chosen_by_labels_are_looked_up_and_join_those_that_are_named():
    there = {"a": {"team": "x"}, "b": {"team": "y"}, "c": {"team": "x"}}
    written = term(namespaceSelector={"matchLabels": {"team": "x"}}, namespaces=["z"])
    found = constraints_of(pod("p", affinity={"podAntiAffinity": {REQUIRED: [written]}}), there)
    assert found.apart[0].namespaces == ("a", "c", "z")


def test_a_term_whose_namespaces_do_not_exist_means_nobody_and_not_its_own():
    written = term(namespaceSelector={"matchLabels": {"team": "x"}})
    assert apart_of(written).namespaces == ("",)


def test_labels_named_by_key_are_compared_with_the_pods_own():
    found = apart_of(term(matchLabelKeys=["rev", "gone"], mismatchLabelKeys=["team"]), rev="7")
    assert found.selector == (WEB, Expression("rev", Operator.IN, ("7",)))
    other = apart_of(term(mismatchLabelKeys=["team"]), team="x")
    assert other.selector == (WEB, Expression("team", Operator.NOT_IN, ("x",)))


def test_a_term_without_a_selector_matches_no_pod_and_one_with_an_empty_one_all():
    nobody, all_of_them = apart_of(term(labelSelector=None)), apart_of(term(labelSelector={}))
    assert nobody.selector == NOTHING
    assert not matches(nobody.selector, {"app": "web", "metadata.name": "x"})
    assert matches(all_of_them.selector, {"app": "web"})


def test_a_term_that_matches_no_pod_keeps_nobody_from_running():
    found = pod(
        "p",
        affinity={"podAntiAffinity": {REQUIRED: [{"topologyKey": "zone"}]}},
        topologySpreadConstraints=[{"topologyKey": "zone", "maxSkew": 1}],
    )
    assert refusal_of(found, shape_of(found)) is None


def test_wishes_to_be_near_are_positive_and_wishes_to_be_apart_negative():
    wish = {"weight": 3, "podAffinityTerm": term()}
    affinity = {"podAffinity": {PREFERRED: [wish]}, "podAntiAffinity": {PREFERRED: [wish]}}
    found = constraints_of(pod("p", affinity=affinity))
    assert [each.weight for each in found.pod_preferences] == [3, -3]


def test_a_spread_is_required_unless_it_may_be_ignored():
    written = term(maxSkew=2)
    soft = written | {"whenUnsatisfiable": "ScheduleAnyway", "matchLabelKeys": ["rev"]}
    labels = {"rev": "7"}
    found = constraints_of(pod("p", topologySpreadConstraints=[written, soft], labels=labels))
    rev = Expression("rev", Operator.IN, ("7",))
    assert found.spread == (Spread("zone", 2, (WEB,)), Spread("zone", 2, (WEB, rev), False))


def test_a_spread_says_which_nodes_count_and_how_many_domains_it_needs():
    written = term(minDomains=3, nodeAffinityPolicy="Ignore", nodeTaintsPolicy="Honor")
    (found,) = constraints_of(pod("p", topologySpreadConstraints=[written])).spread
    assert (found.min_domains, found.heeds_affinity, found.heeds_taints) == (3, False, True)


def test_a_spread_that_selects_by_nothing_counts_nobody():
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
def test_what_is_not_placed_yet_is_said_and_never_ignored(spec: dict[str, Any], words: str):
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
def test_what_decides_nothing_about_the_node_is_no_hindrance(spec: dict[str, Any]):
    found = pod("p", **spec)
    assert refusal_of(found, shape_of(found)) is None
