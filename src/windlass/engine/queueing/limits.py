"""What a queue still may have: its limits, those of the queues above it, and its guarantee.

Limits bind every gang. A gang from which nothing can be taken back must also stay within the
guarantee of its queue, or the guarantee of others could not be honoured.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from windlass.engine.nodes.devices import charged_on
from windlass.engine.queueing.lending import Lending
from windlass.model.gpu_resources import is_gpu
from windlass.model.gpus import WHOLE, GpuRequest
from windlass.model.jobs import Gang, Shape
from windlass.model.queues import CPU, GPU, MEMORY, MODEL_PREFIX, Queue, guaranteed, of_model
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import Request
from windlass.state.cluster import Cluster
from windlass.state.device_states import DeviceKind

_UNITS = {CPU: "CPU", MEMORY: "GiB"}


class Limits:
    """The rules of a cluster's queues."""

    __slots__ = (
        "_accounts",
        "_by_model",
        "_cluster",
        "_has_parts",
        "_kinds",
        "_lending",
        "_limits",
        "_needs",
        "_served",
    )

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._accounts = cluster.accounts
        self._lending = Lending(cluster)
        self._kinds: list[DeviceKind] = cluster.columns.states.kinds
        self._has_parts = any(kind.charged_milli != WHOLE for kind in self._kinds)
        """Are there devices that count as a part of a GPU?"""
        self._limits: dict[str, list[tuple[Queue, str, int]]] = {}
        self._by_model: dict[str, list[tuple[Queue, str, int]]] = {}
        self._served: dict[GpuRequest, list[tuple[str, int]]] = {}
        self._needs: dict[Shape, dict[str, int]] = {}

    def need(self, counts: Mapping[Shape, int]) -> dict[str, int]:
        """The least that so many tasks of these shapes can add to their queue, per dimension."""
        total: dict[str, int] = {}
        for shape, count in counts.items():
            for dimension, amount in self.needs_of(shape).items():
                total[dimension] = total.get(dimension, 0) + count * amount
        return total

    def needs_of(self, shape: Shape) -> dict[str, int]:
        """The least that one task of a shape can add to its queue."""
        found = self._needs.get(shape)
        if found is None:
            found = self._needs[shape] = self._least(shape.request)
        return found

    def never(self, gang: Gang, need: dict[str, int]) -> Reason | None:
        """Why the queue could never have this, if so."""
        for queue, dimension, limit in self._rules(gang.queue):
            if need.get(dimension, 0) > limit:
                return _reason(ReasonCode.NEVER_LIMIT, queue, dimension, need, limit=limit)
        for queue, dimension, guarantee in self._guarantees(gang):
            if need.get(dimension, 0) > guarantee:
                values = {"guarantee": guarantee}
                return _reason(ReasonCode.NEVER_GUARANTEE, queue, dimension, need, **values)
        return None

    def now(self, gang: Gang, need: dict[str, int]) -> Reason | None:
        """Why the queue cannot have this now, if so."""
        return self.beyond(gang, need) or self._not_lent(gang, need)

    def beyond(self, gang: Gang, need: dict[str, int]) -> Reason | None:
        """Which limit or guarantee this would go beyond, if any; what is lent is not asked."""
        for queue, dimension, limit in self._rules(gang.queue):
            has = self._accounts.held.get(queue.name, {}).get(dimension, 0)
            if dimension in need and has + need[dimension] > limit:
                return _reason(ReasonCode.AT_LIMIT, queue, dimension, need, held=has, limit=limit)
        for queue, dimension, guarantee in self._guarantees(gang):
            has = self._accounts.firm.get(queue.name, {}).get(dimension, 0)
            if dimension in need and has + need[dimension] > guarantee:
                why = (
                    ReasonCode.SPARED_BEYOND_GUARANTEE
                    if gang.preemptible
                    else ReasonCode.BEYOND_GUARANTEE
                )
                values = {"held": has, "guarantee": guarantee}
                return _reason(why, queue, dimension, need, **values)
        return None

    def kept(self, gang: Gang, need: dict[str, int]) -> bool:
        """Are the limits that such a need touches kept, as things stand?"""
        touched = dict.fromkeys(need, 0)
        if GPU in need:
            touched |= {rule[1]: 0 for rule in self._model_rules(gang.queue)}
        return self.now(gang, touched) is None

    def refused_model(self, gang: Gang, counts: Mapping[Shape, int]) -> Reason | None:
        """Why some kind of GPU is closed to so many tasks, if the queue closes one."""
        for shape, count in counts.items():
            for model, milli in self._options(shape.request):
                need = {GPU: count * milli, of_model(model): count * milli}
                reason = self.now(gang, need)
                if reason is not None:
                    return reason
        return None

    def narrowed(self, gang: Gang, shape: Shape) -> Shape | None:
        """The shape on the GPU models that its queue may still use; None if there are none."""
        gpu = shape.request.gpu
        if gpu is None or not self._may_depend_on_model(gang, gpu):
            return shape
        models = self._models(gpu)
        # where devices of one model count differently, the least decides; `kept` has the last word
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
        return self.now(gang, {GPU: milli, of_model(model): milli}) is None

    def _may_depend_on_model(self, gang: Gang, gpu: GpuRequest) -> bool:
        """Could a rule of the queue let one model pass and not another?"""
        if gpu.profile or gpu.memory_mib or gang.is_firm:
            return True
        if self._lending.by_model or self._has_parts:
            return True
        held, milli = self._accounts.held, gpu.count * gpu.milli
        return any(
            held.get(queue.name, {}).get(dimension, 0) + milli > limit
            for queue, dimension, limit in self._model_rules(gang.queue)
        )

    def _model_rules(self, name: str) -> list[tuple[Queue, str, int]]:
        found = self._by_model.get(name)
        if found is None:
            found = [rule for rule in self._rules(name) if rule[1].startswith(MODEL_PREFIX)]
            self._by_model[name] = found
        return found

    def _models(self, gpu: GpuRequest) -> list[tuple[str, int]]:
        """The models that can serve a request, with what it adds to its queue on each."""
        found = self._served.get(gpu)
        if found is None:
            options = {(kind.model, charged_on(gpu, kind)) for kind in self._kinds}
            found = self._served[gpu] = sorted(each for each in options if each[1])
        return found

    def _options(self, request: Request) -> Iterable[tuple[str, int]]:
        """The kinds of GPU that can serve a request: models, and what it adds on each."""
        if request.gpu is not None:
            yield from self._models(request.gpu)
        for name, amount in request.extra:
            if is_gpu(name):
                for unit in self._cluster.columns.extra_gpus.units(name):
                    yield unit.model, amount * unit.milli

    def _least(self, request: Request) -> dict[str, int]:
        """The least that one such request can add, per dimension; of a model if it must be that."""
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
        """Why the gang may not borrow what it needs beyond its guarantee, if so."""
        queue = self._cluster.queues.get(gang.queue)
        for dimension in self._lending.dimensions if queue is not None else ():
            has, more = self._cluster.allocated(gang.queue, dimension), need.get(dimension, 0)
            if queue is None or not more or has + more <= guaranteed(queue, dimension):
                continue
            free = self._lending.free(dimension)
            kept = self._lending.kept(dimension, gang.queue)
            if more > free - kept:
                return _reason(ReasonCode.NOT_LENT, queue, dimension, need, free=free, kept=kept)
        return None

    def _rules(self, name: str) -> list[tuple[Queue, str, int]]:
        """The limits on the way from a queue to the root."""
        found = self._limits.get(name)
        if found is None:
            queues = self._cluster.queues
            found = self._limits[name] = [
                (queues[each], dimension, limit)
                for each in self._accounts.path(name)
                if each in queues
                for dimension, limit in sorted(queues[each].limit.items())
            ]
        return found

    def _guarantees(self, gang: Gang) -> Iterable[tuple[Queue, str, int]]:
        queue = self._cluster.queues.get(gang.queue)
        if not gang.is_firm or queue is None:
            return
        for dimension in sorted({GPU, *queue.guarantee}):
            yield queue, dimension, guaranteed(queue, dimension)


def in_units(dimension: str, amount: int) -> str:
    """An amount as people say it: GPUs, CPUs or GiB."""
    return f"{amount / (1024 if dimension == MEMORY else WHOLE):g}"


def unit_of(dimension: str) -> str:
    """What amounts of a dimension are counted in."""
    if dimension.startswith(MODEL_PREFIX):
        return f"{dimension.removeprefix(MODEL_PREFIX)} GPUs"
    return _UNITS.get(dimension, "GPUs")


def _reason(
    why: ReasonCode, queue: Queue, dimension: str, need: dict[str, int], **values: int
) -> Reason:
    said = {name: in_units(dimension, value) for name, value in values.items()}
    said["need"] = in_units(dimension, need.get(dimension, 0))
    return Reason(why, {"queue": queue.name, "unit": unit_of(dimension), **said})
