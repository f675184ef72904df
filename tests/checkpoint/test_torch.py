"""The adapter for PyTorch loops.

If torch is not installed, a fake module with the few functions that are used replaces it. Then the
tests check our calls, not torch.
"""

from __future__ import annotations

import pickle
import random
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from windlass.checkpoint.torch import TorchRanks, checkpoint


def fake_torch() -> ModuleType:
    """Return a module with what the adapter needs: files, random numbers, and no process group."""
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
        monkeypatch.setitem(sys.modules, "torch", torch := fake_torch())
    return torch


class Walk:
    """A part whose steps depend on random numbers."""

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


def test_an_interrupted_loop_ends_with_the_same_state(torch: Any, tmp_path: Path) -> None:
    seed(torch, 8)
    undisturbed = walk(torch, tmp_path / "undisturbed", 10)
    seed(torch, 8)
    walk(torch, tmp_path / "interrupted", 4)
    seed(torch, 9)  # another process has other chances, until it loads
    assert walk(torch, tmp_path / "interrupted", 10).at == undisturbed.at


def test_without_a_process_group_there_is_one_rank(torch: Any) -> None:
    ranks = TorchRanks(torch)
    assert ranks.is_first
    assert (ranks.most(3), ranks.any_of("a")) == (3, "a")
