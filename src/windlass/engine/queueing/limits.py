"""The rules of queues: limits on the path to the root, guarantees, and what may be borrowed.

Limits bind every gang. A firm gang, from which nothing can be taken back, must also stay within the
guarantee of its queue; otherwise the guarantees of others could not be honoured. A gang that goes
beyond the guarantee of its queue borrows: it must leave free in the cluster what other queues keep
of their idle guarantees (`Lending`).

An amount is an integer per *dimension*: thousandths of GPUs (all, or of one model), thousandths of
CPUs, MiB of memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TypeAlias

from windlass.engine.gpu_amounts import charged_on
from windlass.model.gpu.resources import is_gpu
from windlass.model.gpus import WHOLE, GpuRequest
from windlass.model.jobs import Gang, Shape
from windlass.model.queues import CPU, GPU, MEMORY, MODEL_PREFIX, Queue, guaranteed, of_model
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import Request
from windlass.state.cluster import Cluster
from windlass.state.device_states import DeviceKind

_UNITS = {CPU: "CPU", MEMORY: "GiB"}

LimitRule: TypeAlias = tuple[Queue, str, int]
"""A queue, a dimension, and the most that the queue may have of it."""


class Limits:
    """The rules of a cluster's queues, for one cycle.

    The caches below rest on the queue tree and on the kinds of devices, which do not change during
    a cycle. What queues hold is read from the accounts each time: drafts change it.
    """

    __slots__ = (
        "_accounts",
        "_cluster",
        "_has_partial_gpus",
        "_kinds",
        "_lending",
        "_limit_rules",
        "_model_limit_rules",
        "_needs",
        "_served",
    )

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._accounts = cluster.accounts
        self._lending = Lending(cluster)
        self._kinds: list[DeviceKind] = cluster.columns.states.kinds
        self._has_partial_gpus = any(kind.charged_milli != WHOLE for kind in self._kinds)
        """True if some devices count as a part of a GPU."""
        self._limit_rules: dict[str, list[LimitRule]] = {}
        """Per queue, its limits and those of all queues above it."""
        self._model_limit_rules: dict[str, list[LimitRule]] = {}
        """The same, only for dimensions that are GPU models."""
        self._served: dict[GpuRequest, list[tuple[str, int]]] = {}
        self._needs: dict[Shape, dict[str, int]] = {}

    def need(self, counts: Mapping[Shape, int]) -> dict[str, int]:
        """Return the least that these tasks can add to their queue, per dimension."""
        total: dict[str, int] = {}
        for shape, count in counts.items():
            for dimension, amount in self.needs_of(shape).items():
                total[dimension] = total.get(dimension, 0) + count * amount
        return total

    def needs_of(self, shape: Shape) -> dict[str, int]:
        """Return the least that one task of a shape can add to its queue, per dimension."""
        needs = self._needs.get(shape)
        if needs is None:
            needs = self._needs[shape] = self._least(shape.request)
        return needs

    def why_never(self, gang: Gang, need: dict[str, int]) -> Reason | None:
        """Return why the gang's queue could never have this, however idle; None if it could."""
        for queue, dimension, limit in self._limits_above(gang.queue):
            if need.get(dimension, 0) > limit:
                return _reason(ReasonCode.NEVER_LIMIT, queue, dimension, need, limit=limit)
        for queue, dimension, guarantee in self._guarantees(gang):
            if need.get(dimension, 0) > guarantee:
                values = {"guarantee": guarantee}
                return _reason(ReasonCode.NEVER_GUARANTEE, queue, dimension, need, **values)
        return None

    def why_not_now(self, gang: Gang, need: dict[str, int]) -> Reason | None:
        """Return why the gang's queue cannot have this now; None if it can."""
        return self.exceeded_rule(gang, need) or self._not_lent(gang, need)

    def exceeded_rule(self, gang: Gang, need: dict[str, int]) -> Reason | None:
        """Return the limit or guarantee that this would exceed; None if it exceeds none.

        Lending is not checked.
        """
        for queue, dimension, limit in self._limits_above(gang.queue):
            held = self._accounts.held.get(queue.name, {}).get(dimension, 0)
            if dimension in need and held + need[dimension] > limit:
                return _reason(ReasonCode.AT_LIMIT, queue, dimension, need, held=held, limit=limit)
        for queue, dimension, guarantee in self._guarantees(gang):
            held = self._accounts.firm.get(queue.name, {}).get(dimension, 0)
            if dimension in need and held + need[dimension] > guarantee:
                why = (
                    ReasonCode.SPARED_BEYOND_GUARANTEE
                    if gang.preemptible
                    else ReasonCode.BEYOND_GUARANTEE
                )
                values = {"held": held, "guarantee": guarantee}
                return _reason(why, queue, dimension, need, **values)
        return None

    def rules_hold(self, gang: Gang, need: dict[str, int]) -> bool:
        """Return whether all rules that such a need touches hold, after the gang was placed."""
        touched = dict.fromkeys(need, 0)
        if GPU in need:
            touched |= {rule[1]: 0 for rule in self._model_limits_above(gang.queue)}
        return self.why_not_now(gang, touched) is None

    def refused_model(self, gang: Gang, counts: Mapping[Shape, int]) -> Reason | None:
        """Return why the queue closes some GPU model to these tasks; None if it closes none."""
        for shape, count in counts.items():
            for model, milli in self._options(shape.request):
                need = {GPU: count * milli, of_model(model): count * milli}
                reason = self.why_not_now(gang, need)
                if reason is not None:
                    return reason
        return None

    def narrowed(self, gang: Gang, shape: Shape) -> Shape | None:
        """Return the shape with only the GPU models that its queue may still use; None if none.

        The same object is returned if the queue's rules do not narrow it.
        """
        gpu = shape.request.gpu
        if gpu is None or not self._may_depend_on_model(gang, gpu):
            return shape
        models = self._models(gpu)
        # Where devices of one model are charged differently, the least charge decides here;
        # `rules_hold` is checked after the placement and has the last word.
        has_room = {model for model, milli in models if self._has_room(gang, model, milli)}
        allowed = sorted(has_room)
        if len(allowed) == len({model for model, _ in models}):
            return shape
        if not allowed:
            return None
        return replace(
            shape, request=replace(shape.request, gpu=replace(gpu, models=tuple(allowed)))
        )

    def _has_room(self, gang: Gang, model: str, milli: int) -> bool:
        return self.why_not_now(gang, {GPU: milli, of_model(model): milli}) is None

    def _may_depend_on_model(self, gang: Gang, gpu: GpuRequest) -> bool:
        """Return False if no rule of the queue can admit one model and refuse another."""
        if gpu.profile or gpu.memory_mib or gang.is_firm:
            return True
        if self._lending.by_model or self._has_partial_gpus:
            return True
        held, milli = self._accounts.held, gpu.count * gpu.milli
        return any(
            held.get(queue.name, {}).get(dimension, 0) + milli > limit
            for queue, dimension, limit in self._model_limits_above(gang.queue)
        )

    def _models(self, gpu: GpuRequest) -> list[tuple[str, int]]:
        """Return the models that can serve a request, with its charge on each."""
        served = self._served.get(gpu)
        if served is None:
            options = {(kind.model, charged_on(gpu, kind)) for kind in self._kinds}
            served = self._served[gpu] = sorted(option for option in options if option[1])
        return served

    def _options(self, request: Request) -> Iterable[tuple[str, int]]:
        """Yield the models that can serve a request or its extra resources, with the charges."""
        if request.gpu is not None:
            yield from self._models(request.gpu)
        for name, amount in request.extra:
            if is_gpu(name):
                for unit in self._cluster.columns.extra_gpus.units(name):
                    yield unit.model, amount * unit.milli

    def _least(self, request: Request) -> dict[str, int]:
        """Return the smallest amounts that a task with this request can add to its queue, per
        dimension. The dimension of a GPU model is included only if no other model can serve the
        request."""
        needs = {CPU: request.cpu_milli, MEMORY: request.memory_mib}
        parts = [self._models(request.gpu)] if request.gpu is not None else []
        if request.extra:
            units = self._cluster.columns.extra_gpus.units
            parts += [
                [(unit.model, amount * unit.milli) for unit in units(name)]
                for name, amount in request.extra
                if is_gpu(name)
            ]
        for options in parts:
            least = min((milli for _, milli in options), default=0)
            models = {model for model, _ in options}
            for dimension in (GPU, *map(of_model, models if len(models) == 1 else ())):
                needs[dimension] = needs.get(dimension, 0) + least
        return {dimension: amount for dimension, amount in needs.items() if amount}

    def _not_lent(self, gang: Gang, need: dict[str, int]) -> Reason | None:
        """Return why the gang may not borrow what it needs beyond its guarantee; None if it may."""
        queue = self._cluster.queues.get(gang.queue)
        for dimension in self._lending.dimensions if queue is not None else ():
            held, more = self._cluster.allocated(gang.queue, dimension), need.get(dimension, 0)
            if queue is None or not more or held + more <= guaranteed(queue, dimension):
                continue
            free = self._lending.free(dimension)
            kept = self._lending.kept(dimension, gang.queue)
            if more > free - kept:
                return _reason(ReasonCode.NOT_LENT, queue, dimension, need, free=free, kept=kept)
        return None

    def _limits_above(self, name: str) -> list[LimitRule]:
        """Return the limits of a queue and of all queues on its way to the root."""
        rules = self._limit_rules.get(name)
        if rules is None:
            queues = self._cluster.queues
            rules = self._limit_rules[name] = [
                (queues[on_path], dimension, limit)
                for on_path in self._accounts.path(name)
                if on_path in queues
                for dimension, limit in sorted(queues[on_path].limit.items())
            ]
        return rules

    def _model_limits_above(self, name: str) -> list[LimitRule]:
        rules = self._model_limit_rules.get(name)
        if rules is None:
            rules = [rule for rule in self._limits_above(name) if rule[1].startswith(MODEL_PREFIX)]
            self._model_limit_rules[name] = rules
        return rules

    def _guarantees(self, gang: Gang) -> Iterable[LimitRule]:
        """Yield the guarantees that a firm gang may not exceed; none for other gangs."""
        queue = self._cluster.queues.get(gang.queue)
        if not gang.is_firm or queue is None:
            return
        for dimension in sorted({GPU, *queue.guarantee}):
            yield queue, dimension, guaranteed(queue, dimension)


class Lending:
    """The idle guarantees that are not lent.

    A queue that names how much it lends keeps the rest of its idle guarantee to itself.
    """

    __slots__ = ("_children", "_cluster", "by_model", "dimensions")

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._children: dict[str, list[Queue]] = {}
        for name in sorted(cluster.queues):
            queue = cluster.queues[name]
            above = cluster.accounts.path(name)[1:]
            self._children.setdefault(above[0] if above else "", []).append(queue)
        named = {dimension for queue in cluster.queues.values() for dimension in queue.lend}
        self.dimensions = sorted(named)
        """The dimensions in which some queue restricts lending; in all others all is lent."""
        self.by_model = any(dimension.startswith(MODEL_PREFIX) for dimension in named)
        """True if some queue restricts lending of one GPU model."""

    def kept(self, dimension: str, borrower: str) -> int:
        """Return what all queues keep to themselves, but the borrower and those above it."""
        path = {"", *self._cluster.accounts.path(borrower)}
        return sum(
            self._kept_by(queue, dimension)
            for name in path
            for queue in self._children.get(name, ())
            if queue.name not in path
        )

    def free(self, dimension: str) -> int:
        """Return the capacity that no queue holds."""
        tops = self._children.get("", ())
        held = sum(self._cluster.allocated(queue.name, dimension) for queue in tops)
        return max(0, self._cluster.columns.capacity().get(dimension, 0) - held)

    def _kept_by(self, queue: Queue, dimension: str) -> int:
        below = sum(self._kept_by(child, dimension) for child in self._children.get(queue.name, ()))
        if dimension not in queue.lend:
            return below
        idle = guaranteed(queue, dimension) - self._cluster.allocated(queue.name, dimension)
        return max(below, idle - queue.lend[dimension], 0)


def in_units(dimension: str, amount: int) -> str:
    """Return an amount as text in the unit that people use: GPUs, CPUs or GiB."""
    return f"{amount / (1024 if dimension == MEMORY else WHOLE):g}"


def unit_of(dimension: str) -> str:
    """Return the name of the unit in which amounts of a dimension are shown."""
    if dimension.startswith(MODEL_PREFIX):
        return f"{dimension.removeprefix(MODEL_PREFIX)} GPUs"
    return _UNITS.get(dimension, "GPUs")


def _reason(
    why: ReasonCode, queue: Queue, dimension: str, need: dict[str, int], **values: int
) -> Reason:
    shown = {name: in_units(dimension, value) for name, value in values.items()}
    shown["need"] = in_units(dimension, need.get(dimension, 0))
    return Reason(why, {"queue": queue.name, "unit": unit_of(dimension), **shown})
