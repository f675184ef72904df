"""Checkpoints for PyTorch loops: models, optimisers and other parts are saved together.

    work = checkpoint("/checkpoints", model=model, optimizer=optimizer)
    for step in work.steps(10_000):
        ...

Rank 0 writes the states of the parts; every rank writes the state of its random number generators.
Sharded states (FSDP) need a `save` function of their own, with `Checkpoint` and `TorchRanks`. Torch
is imported only here, and only when it is used.

torchrun kills its workers 30 s after SIGTERM, whatever grace the pod has, and replaces the exit
code 85 of a worker by its own. Work that needs longer to save should get requests over HTTP, which
come before any signal, or set TORCH_ELASTIC_SHUTDOWN_TIMEOUT, if its torchrun knows that variable.
"""

from __future__ import annotations

import importlib
import os
from pathlib import Path
from typing import Any, Protocol

from windlass.checkpoint.session import EVERY_S, Checkpoint


class StatefulPart(Protocol):
    """A part of the training with a state: a model, optimiser, schedule, scaler or sampler."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> object:
        """Restore the state."""
        ...


def checkpoint(
    folder: str | os.PathLike[str],
    *,
    every_s: float = EVERY_S,
    keep: int = 2,
    **parts: StatefulPart,
) -> Checkpoint:
    """Return the checkpoints of a loop over these parts.

    Call it after `init_process_group`, if the job has a process group.
    """
    torch: Any = importlib.import_module("torch")
    ranks = TorchRanks(torch)

    def save(place: Path) -> None:
        if ranks.is_first:
            states = {name: part.state_dict() for name, part in parts.items()}
            torch.save(states, place / "parts.pt")
        torch.save(_random_states(torch), place / f"chance-{ranks.rank}.pt")

    def load(place: Path) -> None:
        states = torch.load(place / "parts.pt", map_location="cpu", weights_only=True)
        for name, part in parts.items():
            part.load_state_dict(states[name])
        own = place / f"chance-{ranks.rank}.pt"
        if own.exists():  # missing for new ranks if the job has grown since
            _set_random_states(torch, torch.load(own, map_location="cpu", weights_only=True))

    return Checkpoint(folder, save, load, every_s=every_s, keep=keep, ranks=ranks)


class TorchRanks:
    """The ranks of the default process group; one rank where there is none."""

    def __init__(self, torch: Any) -> None:
        self._torch, self._group = torch, torch.distributed
        self._is_many = self._group.is_available() and self._group.is_initialized()
        self.rank: int = self._group.get_rank() if self._is_many else 0

    @property
    def is_first(self) -> bool:
        """Return whether this is rank 0."""
        return self.rank == 0

    def most(self, number: int) -> int:
        """Return the largest number of all ranks."""
        if not self._is_many:
            return number
        largest = self._torch.tensor([number], device=self._device())
        self._group.all_reduce(largest, op=self._group.ReduceOp.MAX)
        return int(largest.item())

    def any_of(self, text: str) -> str:
        """Return the text of the lowest rank whose text is not empty; "" if all are empty."""
        if not self._is_many:
            return text
        texts: list[str] = [""] * self._group.get_world_size()
        self._group.all_gather_object(texts, text)
        return next(filter(None, texts), "")

    def _device(self) -> str:
        """Return the device for tensors of the group: NCCL needs them on a GPU."""
        return "cuda" if self._group.get_backend() == "nccl" else "cpu"


def _random_states(torch: Any) -> dict[str, Any]:
    states = {"cpu": torch.get_rng_state()}
    return states | ({"cuda": torch.cuda.get_rng_state()} if torch.cuda.is_available() else {})


def _set_random_states(torch: Any, saved: dict[str, Any]) -> None:
    torch.set_rng_state(saved["cpu"])
    if "cuda" in saved and torch.cuda.is_available():
        torch.cuda.set_rng_state(saved["cuda"])
