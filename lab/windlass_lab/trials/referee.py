"""The referee of a placement trial: its own plain account of the free capacity of every node.

Nothing may be placed where it does not fit, and nothing refused that fits somewhere.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from windlass.model.actions import Bind
from windlass.model.gpus import WHOLE
from windlass.model.nodes import Node
from windlass.model.resources import Request
from windlass.state.node_columns import Ints, Mask


class Foul(AssertionError):
    """A placement against the rules."""


class Referee:
    """Checks the placement of pods with one fraction or whole GPUs."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._slot = {node.name: at for at, node in enumerate(nodes)}
        self._models = np.array([node.gpus[0].model if node.gpus else "" for node in nodes])
        self._cpu: Ints = np.array([node.cpu_milli for node in nodes], np.int64)
        self._memory: Ints = np.array([node.memory_mib for node in nodes], np.int64)
        most = max(len(node.gpus) for node in nodes)
        self._gpus: Ints = np.zeros((len(nodes), most), np.int64)
        for at, node in enumerate(nodes):
            self._gpus[at, : len(node.gpus)] = WHOLE
        self.total = int(self._gpus.sum())
        """The milli-GPU of the cluster."""
        self._asked = 0

    @property
    def asked(self) -> float:
        """The percentage of all GPUs that was requested."""
        return self._asked / self.total * 100

    @property
    def allocated(self) -> float:
        """The percentage of all GPUs that is in use."""
        return (self.total - int(self._gpus.sum())) / self.total * 100

    def judge(self, request: Request, bind: Bind | None) -> None:
        """Account for a decided pod; raise Foul if the decision is against the rules."""
        gpu, fits = request.gpu, self._fits(request)
        self._asked += gpu.count * gpu.milli if gpu else 0
        if bind is None:
            if fits.any():
                raise Foul(f"{request} was refused and fits {int(fits.sum())} nodes")
            return
        slot = self._slot[bind.node]
        if not fits[slot]:
            raise Foul(f"{request} does not fit {bind.node}")
        self._change(slot, request, bind, -1)
        if len(bind.devices) != (gpu.count if gpu else 0) or (self._gpus[slot] < 0).any():
            raise Foul(f"{request} was given {bind.devices} of {bind.node}")

    def leave(self, request: Request, bind: Bind) -> None:
        """Remove a pod that has ended."""
        self._change(self._slot[bind.node], request, bind, 1)

    def _change(self, slot: int, request: Request, bind: Bind, sign: int) -> None:
        self._cpu[slot] += sign * request.cpu_milli
        self._memory[slot] += sign * request.memory_mib
        for each in bind.devices:
            self._gpus[slot, each.device] += sign * each.milli

    def _fits(self, request: Request) -> Mask:
        gpu = request.gpu
        fits = (self._cpu >= request.cpu_milli) & (self._memory >= request.memory_mib)
        if gpu is not None:
            fits &= (self._gpus >= gpu.milli).sum(axis=1) >= gpu.count
            if gpu.models:
                fits &= np.isin(self._models, gpu.models)
        return fits
