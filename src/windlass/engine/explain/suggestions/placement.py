"""Changes of where a job may run: on which GPUs and nodes, near what, apart from what."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

from windlass.engine.explain.suggestions.catalog import (
    MOST_ALTERNATIVES,
    ChangeKind,
    Ladder,
    Ladders,
    WaitingGang,
    again,
    once,
    with_constraints,
    with_gpu,
)
from windlass.model.constraints import Constraints, Effect, Taint, Toleration, tolerates
from windlass.model.gpu_resources import PRODUCT
from windlass.model.gpus import worth
from windlass.model.jobs import Domain, Task
from windlass.model.validation.problems import listed
from windlass.state.cluster import Cluster


def _models(asked: WaitingGang) -> Iterator[Ladder]:
    """Another model, the one that is worth nearly the same first."""
    named = {model for task in asked.tasks for model in _models_of(task)}
    if not named:
        return
    there = _models_there(asked.cluster)
    of_old = max((there.get(model, (0, ""))[0] for model in named), default=0)
    others = sorted(
        (abs(value - of_old), model) for model, (value, _) in there.items() if model not in named
    )
    for _, model in others[:MOST_ALTERNATIVES]:
        product = there[model][1]
        tasks = [_on_model(task, model, product) for task in asked.tasks]
        says = f"on {model} GPUs instead of {listed(sorted(named))}"
        yield once(ChangeKind.MODEL, says, {"model": model}, again(asked, tasks=tasks))


def _models_there(cluster: Cluster) -> dict[str, tuple[int, str]]:
    """The models that there are, what each is worth, and the label that nodes with it have."""
    return {
        gpu.model: (worth(gpu.model, gpu.memory_mib), node.labels.get(PRODUCT, ""))
        for _, node in sorted(cluster.nodes.items())
        for gpu in node.gpus
        if gpu.healthy
    }


def _models_of(task: Task) -> Sequence[str]:
    """The models that a task insists on, by its request or by its selector."""
    gpu = task.shape.request.gpu
    if gpu is None:
        return ()
    return (*gpu.models, *(v for key, v in task.shape.constraints.selector if key == PRODUCT))


def _on_model(task: Task, model: str, product: str) -> Task:
    """The task on one model, where it insisted on others."""
    selector = task.shape.constraints.selector
    if task.shape.request.gpu is not None and any(key == PRODUCT for key, _ in selector):
        kept = (pair for pair in selector if pair[0] != PRODUCT)
        changed = tuple(sorted((*kept, *([(PRODUCT, product)] if product else ()))))
        task = with_constraints(task, lambda wants: replace(wants, selector=changed))
    return with_gpu(task, lambda gpu: replace(gpu, models=(model,)) if gpu.models else gpu)


def _domains(asked: WaitingGang) -> Iterator[Ladder]:
    """A domain that is only preferred."""
    gang = asked.gang
    wishes = [gang.domain, *(group.domain for group in gang.groups)]
    levels = dict.fromkeys(each.level for each in wishes if each is not None and each.required)
    if not levels:
        return
    groups = tuple(replace(group, domain=_preferred(group.domain)) for group in gang.groups)
    events = again(asked, replace(gang, domain=_preferred(gang.domain), groups=groups))
    says = f"if it preferred to be within one {listed(levels)}, instead of requiring it"
    yield once(ChangeKind.DOMAIN, says, {"levels": listed(levels)}, events)


def _preferred(wish: Domain | None) -> Domain | None:
    return replace(wish, required=False) if wish is not None else None


def _selectors(asked: WaitingGang) -> Iterator[Ladder]:
    """Without one label of its selector, or without its affinity to nodes, or without both."""
    wants = [task.shape.constraints for task in asked.tasks]
    keys = dict.fromkeys(key for each in wants for key, _ in each.selector)
    for key in keys:
        says = f"without {key} in its node selector"
        yield _dropped(asked, ChangeKind.SELECTOR, says, key, partial(_without_label, key))
    if any(each.affinity for each in wants):
        says = "without its affinity to nodes"
        yield _dropped(asked, ChangeKind.SELECTOR, says, "affinity", _without_affinity)
    if len(keys) + any(each.affinity for each in wants) > 1:
        says = "without its node selector and its affinity to nodes"
        yield _dropped(asked, ChangeKind.SELECTOR, says, "all", _anywhere)


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


def _neighbours(asked: WaitingGang) -> Iterator[Ladder]:
    """Without what it wants of other tasks, one thing or everything."""
    wants = [task.shape.constraints for task in asked.tasks]
    named = [field for field in _NEIGHBOURS if any(getattr(each, field) for each in wants)]
    for field in named:
        drop = partial(_without_fields, (field,))
        yield _dropped(asked, ChangeKind.NEIGHBOURS, _NEIGHBOURS[field], field, drop)
    if len(named) > 1:
        drop = partial(_without_fields, named)
        yield _dropped(
            asked, ChangeKind.NEIGHBOURS, "without its rules about other pods", "all", drop
        )


def _without_fields(fields: Sequence[str], wants: Constraints) -> Constraints:
    return replace(wants, **dict.fromkeys(fields, ()))


def _dropped(
    asked: WaitingGang,
    kind: ChangeKind,
    says: str,
    what: str,
    drop: Callable[[Constraints], Constraints],
) -> Ladder:
    tasks = [with_constraints(task, drop) for task in asked.tasks]
    return once(kind, says, {"drops": what}, again(asked, tasks=tasks))


def _taints(asked: WaitingGang) -> Iterator[Ladder]:
    """Tolerating a taint that some node has."""
    found = {taint: 0 for node in asked.cluster.nodes.values() for taint in node.taints}
    wants = [task.shape.constraints.tolerations for task in asked.tasks]
    closed = [
        taint
        for taint in found
        if taint.effect != Effect.PREFER_NO_SCHEDULE
        and not all(tolerates(each, taint) for each in wants)
    ]
    for taint in sorted(closed, key=_name_of)[:MOST_ALTERNATIVES]:
        more = Toleration(taint.key, taint.value, effect=taint.effect)
        tasks = [with_constraints(task, partial(_tolerating, more)) for task in asked.tasks]
        says = f"if it tolerated the taint {_name_of(taint)}"
        yield once(ChangeKind.TAINT, says, {"taint": _name_of(taint)}, again(asked, tasks=tasks))


def _tolerating(more: Toleration, wants: Constraints) -> Constraints:
    return replace(wants, tolerations=(*wants.tolerations, more))


def _name_of(taint: Taint) -> str:
    return f"{taint.key}{'=' * bool(taint.value)}{taint.value}:{taint.effect}"


OF_THE_PLACE: dict[ChangeKind, Ladders] = {
    ChangeKind.MODEL: _models,
    ChangeKind.DOMAIN: _domains,
    ChangeKind.SELECTOR: _selectors,
    ChangeKind.NEIGHBOURS: _neighbours,
    ChangeKind.TAINT: _taints,
}
"""In the order in which they are tried."""
