"""For PyTorch loops: models, optimisers and the like are saved together, on every rank.

    work = checkpoint("/checkpoints", model=model, optimizer=optimizer)
    for step in work.steps(10_000):
        ...

Rank 0 writes what the parts say of themselves; every rank its own random numbers. Sharded states
(FSDP) need a `save` of their own, with `Checkpoint` and `TorchRanks`. Torch itself is imported only
here, and only when used.

torchrun kills its workers 30 s after SIGTERM, whatever grace the pod has, and reports a worker's
exit code 85 as a failure of its own. So work that needs longer is to be asked over HTTP, which
comes before any signal; or set TORCH_ELASTIC_SHUTDOWN_TIMEOUT, where torchrun knows it.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any, Protocol

from windlass.checkpoint.session import EVERY_S, Checkpoint


class StatefulPart(Protocol):
    """Anything with a state: models, optimisers, schedules, scalers, samplers."""

    def state_dict(self) -> dict[str, Any]:
        """Its state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> object:
        """Be in that state again."""
        ...


def checkpoint(
    folder: str | os.PathLike[str],
    *,
    every_s: float = EVERY_S,
    keep: int = 2,
    **parts: StatefulPart,
) -> Checkpoint:
    """The work of a loop over these parts; after `init_process_group`, where there is one."""
    torch: Any = importlib.import_module("torch")
    ranks = TorchRanks(torch)

    def save(place: Path) -> None:
        if ranks.is_first:
            states = {name: part.state_dict() for name, part in parts.items()}
            torch.save(states, place / "parts.pt")
        torch.save(_chance(torch), place / f"chance-{ranks.rank}.pt")

    def load(place: Path) -> None:
        states = torch.load(place / "parts.pt", map_location="cpu", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(states[name])
        own = place / f"chance-{ranks.rank}.pt"
        if own.exists():  # not so if the job has grown since
            _set_chance(torch, torch.load(own, map_location="cpu", weights_only=True))

    return Checkpoint(folder, save, load, every_s=every_s, keep=keep, ranks=ranks)


class TorchRanks:
    """The ranks of the default process group; one rank where there is none."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._group = torch, torch.distributed
        self._is_many = self._group.is_available() and self._group.is_initialized()
        self.rank: int = self._group.get_rank() if self._is_many else 0

    @property
    def is_first(self) -> bool:
        """Is this rank 0?"""
        return self.rank == 0

    def most(self, number: int) -> int:
        """The largest of what the ranks say."""
        if not self._is_many:
            return number
        said = self._torch.tensor([number], device=self._device())
        self._group.all_reduce(said, op=self._group.ReduceOp.MAX)
        return int(said.item())

    def any_of(self, text: str) -> str:
        """What the lowest rank that has something to say says."""
        if not self._is_many:
            return text
        said: list[str] = [""] * self._group.get_world_size()
        self._group.all_gather_object(said, text)
        return next(filter(None, said), "")

    def _device(self) -> str:
        """NCCL knows only tensors on a GPU."""
        return "cuda" if self._group.get_backend() == "nccl" else "cpu"


def _chance(torch: Any) -> dict[str, Any]:
    found = {"cpu": torch.get_rng_state()}
    return found | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def _set_chance(torch: Any, saved: dict[str, Any]) -> None:
    torch.set_rng_state(saved["cpu"])
    if "cuda" in saved and torch.cuda.is_available():
        torch.cuda.set_rng_state(saved["cuda"])
