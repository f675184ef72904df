"""Node labels and taints against a pod, as far as a kubelet checks them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from windlass_lab.fake_kubelet.wire import PodSpec, Requirement, SelectorTerm, Taint, Toleration


def suits(spec: PodSpec, node: str, labels: Mapping[str, str]) -> bool:
    """Return whether the node has the labels that the pod's selector and required affinity need."""
    if any(labels.get(key) != value for key, value in spec.node_selector.items()):
        return False
    affinity = spec.affinity and spec.affinity.node_affinity
    if not affinity or affinity.required is None:
        return True
    return any(_matches(term, node, labels) for term in affinity.required.node_selector_terms)


def tolerates(spec: PodSpec, taints: Iterable[Taint]) -> bool:
    """Return whether the pod tolerates the NoExecute taints; a kubelet ignores NoSchedule."""
    return all(
        any(_covers(toleration, taint) for toleration in spec.tolerations)
        for taint in taints
        if taint.effect == "NoExecute"
    )


def _matches(term: SelectorTerm, node: str, labels: Mapping[str, str]) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False  # an empty term matches no node
    fields = {"metadata.name": node}
    return all(_holds(wanted, labels) for wanted in term.match_expressions) and all(
        _holds(wanted, fields) for wanted in term.match_fields
    )


def _holds(wanted: Requirement, found: Mapping[str, str]) -> bool:
    value = found.get(wanted.key)
    match wanted.operator:
        case "In":
            return value is not None and value in wanted.values
        case "NotIn":
            return value not in wanted.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            return _compares(value, wanted)
        case _:
            return False


def _compares(value: str | None, wanted: Requirement) -> bool:
    try:
        found, bound = int(value or ""), int(wanted.values[0])
    except (ValueError, IndexError):
        return False
    return found > bound if wanted.operator == "Gt" else found < bound


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect):
        return False
    if not toleration.key:
        return toleration.operator == "Exists"
    if toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
