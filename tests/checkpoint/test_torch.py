"""The adapter for PyTorch loops. Torch is not among what we test with: where it is absent, a module
of the same few functions stands in for it, which proves our calls and not torch."""

from __future__ import annotations

import pickle
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from windlass.checkpoint.torch import TorchRanks, checkpoint


def stand_in() -> ModuleType:
    """What the adapter needs of torch: files, random numbers, and no process group."""
    torch: Any = ModuleType("torch")
    torch.__file__ = None
    torch.save = lambda what, path: path.write_bytes(pickle.dumps(what))
    torch.load = lambda path, map_location, weights_only: pickle.loads(path.read_bytes())
    torch.get_rng_state = random.getstate
    torch.set_rng_state = random.setstate
    torch.cuda = SimpleNamespace(is_available=lambda: False)
    torch.distributed = SimpleNamespace(is_available=lambda: False)
    return torch


@pytest.fixture(autouse=True)
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        monkeypatch.setitem(sys.modules, "torch", torch := stand_in())
    return torch


class Walk:
    """A part whose steps depend on chance."""

    def __init__(self) -> None:
        self.at = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"at": self.at}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.at = state_dict["at"]

    def step(self, torch: Any) -> None:
        self.at += random.random() if torch.__file__ is None else torch.rand(()).item()


def seed(torch: Any, number: int) -> None:
    random.seed(number)
    if torch.__file__ is not None:
        torch.manual_seed(number)


def walk(torch: Any, folder: Path, steps: int) -> Walk:
    model = Walk()
    for _ in checkpoint(folder, model=model).steps(steps):
        model.step(torch)
    return model


def test_a_loop_that_was_interrupted_ends_as_if_it_had_not_been(torch: Any, tmp_path: Path) -> None:
    seed(torch, 8)
    undisturbed = walk(torch, tmp_path / "undisturbed", 10)
    seed(torch, 8)
    walk(torch, tmp_path / "interrupted", 4)
    seed(torch, 9)  # another process has other chances, until it loads
    assert walk(torch, tmp_path / "interrupted", 10).at == undisturbed.at


def test_without_a_process_group_it_is_alone(torch: Any) -> None:
    ranks = TorchRanks(torch)
    assert ranks.is_first
    assert (ranks.most(3), ranks.any_of("a")) == (3, "a")
