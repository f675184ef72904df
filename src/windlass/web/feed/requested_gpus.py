"""The GPU thousandths that waiting tasks request, in whichever way they request them."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from windlass.engine.plan import Decision, Verdict
from windlass.model.gpu.mig import milli_of_profile, offered_by
from windlass.model.gpu.resources import is_gpu
from windlass.model.gpus import WHOLE, Gpu, GpuRequest, milli_of_memory
from windlass.model.jobs import Task
from windlass.model.nodes import Node
from windlass.model.resources import Request
from windlass.state.queue_accounts import charged_milli
from windlass.web.feed.view import Hardware


def is_waiting(decision: Decision) -> bool:
    """Return whether the decision is about a gang that stays in the queue."""
    return decision.verdict in (Verdict.WAITS, Verdict.NEVER)


class RequestedGpus:
    """Measures requests by the GPUs of one cluster: a MIG slice or some memory as a part of one."""

    def __init__(self, hardware: Hardware) -> None:
        self._hardware = hardware
        self._milli_of: dict[GpuRequest, int] = {}
        """A cache: it rests on the hardware, which never changes; a new one gets a new object."""

    def of(self, tasks: Iterable[Task]) -> int:
        """Return the thousandths that all these tasks request together."""
        requests = [task.shape.request for task in tasks]
        extras = sum(self._extra_milli(request) for request in requests if request.extra)
        return sum(self._milli(request.gpu) for request in requests) + extras

    def _milli(self, gpu: GpuRequest | None) -> int:
        if gpu is None:
            return 0
        if gpu not in self._milli_of:
            in_parts = gpu.profile or gpu.memory_mib
            self._milli_of[gpu] = gpu.count * (
                _least(gpu, self._hardware.cards) if in_parts else gpu.milli
            )
        return self._milli_of[gpu]

    def _extra_milli(self, request: Request) -> int:
        """Return the thousandths of the GPUs among the extra resources of a request."""
        return sum(
            amount * self._hardware.unit_milli(name)
            for name, amount in request.extra
            if is_gpu(name)
        )


def given_milli(task: Task, node: Node | None) -> int:
    """Return the GPU thousandths that a task on a node has, as its queue is charged for them."""
    return charged_milli(task.shape.request, task.devices, node)


def _least(gpu: GpuRequest, cards: Collection[Gpu]) -> int:
    """Return the thousandths on the card where it is least; a whole GPU if no card fits."""
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
