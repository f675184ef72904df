"""Changes of the nodes that a job may run on: GPU models, domains, selectors, pod rules, taints."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from windlass.engine.suggestions.catalog import (
    MOST_ALTERNATIVES,
    ChangeKind,
    Ladder,
    Ladders,
    WaitingGang,
    resubmitted,
    single_change,
    with_constraints,
    with_gpu,
)
from windlass.model.constraints import Constraints, Effect, Taint, Toleration, tolerates
from windlass.model.gpu.resources import PRODUCT
from windlass.model.gpus import value_of_model
from windlass.model.jobs import Domain, Task
from windlass.model.validation import join_names
from windlass.state.cluster import Cluster


def _models(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield other GPU models, those of the nearest price first."""
    named = {model for task in waiting.tasks for model in _models_of(task)}
    if not named:
        return
    existing = _existing_models(waiting.cluster)
    price = max((existing.get(model, (0, ""))[0] for model in named), default=0)
    others = sorted(
        (abs(value - price), model) for model, (value, _) in existing.items() if model not in named
    )
    for _, model in others[:MOST_ALTERNATIVES]:
        product = existing[model][1]
        tasks = [_on_model(task, model, product) for task in waiting.tasks]
        says = f"on {model} GPUs instead of {join_names(sorted(named))}"
        yield single_change(
            ChangeKind.MODEL, says, {"model": model}, resubmitted(waiting, tasks=tasks)
        )


def _existing_models(cluster: Cluster) -> dict[str, tuple[int, str]]:
    """Return the healthy models of the cluster, each with its price and product label."""
    return {
        gpu.model: (value_of_model(gpu.model, gpu.memory_mib), node.labels.get(PRODUCT, ""))
        for _, node in sorted(cluster.nodes.items())
        for gpu in node.gpus
        if gpu.healthy
    }


def _models_of(task: Task) -> Sequence[str]:
    """Return the models that a task requires, by its request or by its selector."""
    gpu = task.shape.request.gpu
    if gpu is None:
        return ()
    return (*gpu.models, *(v for key, v in task.shape.constraints.selector if key == PRODUCT))


def _on_model(task: Task, model: str, product: str) -> Task:
    """Return the task with one model in place of those that it requires."""
    selector = task.shape.constraints.selector
    if task.shape.request.gpu is not None and any(key == PRODUCT for key, _ in selector):
        kept = (pair for pair in selector if pair[0] != PRODUCT)
        changed = tuple(sorted((*kept, *([(PRODUCT, product)] if product else ()))))
        task = with_constraints(task, lambda wants: replace(wants, selector=changed))
    return with_gpu(task, lambda gpu: replace(gpu, models=(model,)) if gpu.models else gpu)


def _domains(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield that required domains are only preferred."""
    gang = waiting.gang
    wishes = [gang.domain, *(group.domain for group in gang.groups)]
    levels = dict.fromkeys(wish.level for wish in wishes if wish is not None and wish.required)
    if not levels:
        return
    groups = tuple(replace(group, domain=_preferred(group.domain)) for group in gang.groups)
    events = resubmitted(waiting, replace(gang, domain=_preferred(gang.domain), groups=groups))
    says = f"if it preferred to be within one {join_names(levels)}, instead of requiring it"
    yield single_change(ChangeKind.DOMAIN, says, {"levels": join_names(levels)}, events)


def _preferred(wish: Domain | None) -> Domain | None:
    return replace(wish, required=False) if wish is not None else None


def _selectors(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield node selectors without one label, or no node affinity, or neither of the two."""
    wants = [task.shape.constraints for task in waiting.tasks]
    keys = dict.fromkeys(key for constraints in wants for key, _ in constraints.selector)
    for key in keys:
        says = f"without {key} in its node selector"
        yield _dropped(waiting, ChangeKind.SELECTOR, says, key, partial(_without_label, key))
    has_affinity = any(constraints.affinity for constraints in wants)
    if has_affinity:
        says = "without its affinity to nodes"
        yield _dropped(waiting, ChangeKind.SELECTOR, says, "affinity", _without_affinity)
    if len(keys) + has_affinity > 1:
        says = "without its node selector and its affinity to nodes"
        yield _dropped(waiting, ChangeKind.SELECTOR, says, "all", _anywhere)


def _without_label(key: str, wants: Constraints) -> Constraints:
    return replace(wants, selector=tuple(pair for pair in wants.selector if pair[0] != key))


def _without_affinity(wants: Constraints) -> Constraints:
    return replace(wants, affinity=())


def _anywhere(wants: Constraints) -> Constraints:
    return replace(wants, selector=(), affinity=())


_NEIGHBOURS = {
    "near": "without its affinity to other pods",
    "apart": "without its anti-affinity to other pods",
    "spread": "without its spread over domains",
}


def _neighbours(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield pod rules removed, one kind or all."""
    wants = [task.shape.constraints for task in waiting.tasks]
    named = [field for field in _NEIGHBOURS if any(getattr(rules, field) for rules in wants)]
    for field in named:
        drop = partial(_without_fields, (field,))
        yield _dropped(waiting, ChangeKind.NEIGHBOURS, _NEIGHBOURS[field], field, drop)
    if len(named) > 1:
        drop = partial(_without_fields, named)
        yield _dropped(
            waiting, ChangeKind.NEIGHBOURS, "without its rules about other pods", "all", drop
        )


def _without_fields(fields: Sequence[str], wants: Constraints) -> Constraints:
    return replace(wants, **dict.fromkeys(fields, ()))


def _dropped(
    waiting: WaitingGang,
    kind: ChangeKind,
    says: str,
    what: str,
    drop: Callable[[Constraints], Constraints],
) -> Ladder:
    tasks = [with_constraints(task, drop) for task in waiting.tasks]
    return single_change(kind, says, {"drops": what}, resubmitted(waiting, tasks=tasks))


def _taints(waiting: WaitingGang) -> Iterator[Ladder]:
    """Yield tolerations of taints that some node has."""
    taints = {taint: 0 for node in waiting.cluster.nodes.values() for taint in node.taints}
    wants = [task.shape.constraints.tolerations for task in waiting.tasks]
    closed = [
        taint
        for taint in taints
        if taint.effect != Effect.PREFER_NO_SCHEDULE
        and not all(tolerates(tolerations, taint) for tolerations in wants)
    ]
    for taint in sorted(closed, key=_name_of)[:MOST_ALTERNATIVES]:
        more = Toleration(taint.key, taint.value, effect=taint.effect)
        tasks = [with_constraints(task, partial(_tolerating, more)) for task in waiting.tasks]
        says = f"if it tolerated the taint {_name_of(taint)}"
        yield single_change(
            ChangeKind.TAINT, says, {"taint": _name_of(taint)}, resubmitted(waiting, tasks=tasks)
        )


def _tolerating(more: Toleration, wants: Constraints) -> Constraints:
    return replace(wants, tolerations=(*wants.tolerations, more))


def _name_of(taint: Taint) -> str:
    return f"{taint.key}{'=' * bool(taint.value)}{taint.value}:{taint.effect}"


PLACEMENT_CHANGES: dict[ChangeKind, Ladders] = {
    ChangeKind.MODEL: _models,
    ChangeKind.DOMAIN: _domains,
    ChangeKind.SELECTOR: _selectors,
    ChangeKind.NEIGHBOURS: _neighbours,
    ChangeKind.TAINT: _taints,
}
"""The kinds of change, in the order in which they are tried."""
