"""How much GPU the waiting tasks ask for, in thousandths, whatever the way they ask."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from windlass.engine.plan import Decision, Verdict
from windlass.model.gpu_resources import is_gpu, least_unit
from windlass.model.gpus import WHOLE, Gpu, GpuRequest, milli_of_memory
from windlass.model.jobs import Task
from windlass.model.mig import milli_of_profile, offered_by
from windlass.model.nodes import Node
from windlass.model.resources import Request
from windlass.state.queue_accounts import charged_milli
from windlass.web.feed.view import Hardware


def is_waiting(decision: Decision) -> bool:
    """Is it about a gang that stays in line?"""
    return decision.verdict in (Verdict.WAITS, Verdict.NEVER)


class RequestedGpus:
    """Knows the cards of one cluster, and so what a slice or some memory is of them."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._known: dict[GpuRequest, int] = {}
        self._units: dict[str, int] = {}
        """Thousandths of one unit of each GPU resource."""

    def of(self, tasks: Iterable[Task]) -> int:
        """The thousandths of all these tasks together."""
        requests = [task.shape.request for task in tasks]
        extras = sum(self._extra_milli(each) for each in requests if each.extra)
        return sum(self._milli(each.gpu) for each in requests) + extras

    def _milli(self, gpu: GpuRequest | None) -> int:
        if gpu is None:
            return 0
        if gpu not in self._known:
            in_parts = gpu.profile or gpu.memory_mib
            self._known[gpu] = gpu.count * (
                _least(gpu, self._hardware.cards) if in_parts else gpu.milli
            )
        return self._known[gpu]

    def _extra_milli(self, request: Request) -> int:
        """Of GPUs among its extra resources, on the nodes on which they are least."""
        total = 0
        for name, amount in request.extra:
            if is_gpu(name):
                if name not in self._units:
                    self._units[name] = least_unit(self._hardware.nodes.values(), name)
                total += amount * self._units[name]
        return total


def given_milli(task: Task, node: Node | None) -> int:
    """The GPU thousandths that a task on a node has, as its queue is charged for them."""
    return charged_milli(task.shape.request, task.devices, node)


def _least(gpu: GpuRequest, cards: Collection[Gpu]) -> int:
    """Of the card on which it is least; a whole one where no card would do."""
    fitting = [card for card in cards if not gpu.models or card.model in gpu.models]
    if gpu.profile:
        parts = [
            milli_of_profile(card.model, gpu.profile)
            for card in fitting
            if gpu.profile in offered_by(card.model)
        ]
    else:
        parts = [milli_of_memory(gpu.memory_mib, card.memory_mib) for card in fitting]
    return min(WHOLE, *parts) if parts else WHOLE
