"""A small network learns to tell two spirals apart, and survives being thrown off its node.

What concerns saving are three lines: the import, the `Checkpoint`, the loop over its steps.
Whatever the next step depends on is saved: weights, momentum, and the random numbers.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np

from windlass.checkpoint import Checkpoint

STEPS, BATCH, HIDDEN = 400, 64, 32
RATE, MOMENTUM = 0.05, 0.9


class Network:
    """Two layers, trained by gradient descent with momentum."""

    def __init__(self, seed: int) -> None:
        self.chance = np.random.default_rng(seed)
        self.weights = {
            "into": self.chance.normal(size=(2, HIDDEN)),
            "bias": np.zeros(HIDDEN),
            "out": self.chance.normal(size=HIDDEN) / HIDDEN**0.5,
        }
        self.speed = {name: np.zeros_like(value) for name, value in self.weights.items()}

    def step(self) -> float:
        """One batch; the loss before it."""
        points, sides = spirals(self.chance)
        hidden = np.tanh(points @ self.weights["into"] + self.weights["bias"])
        guess = 1 / (1 + np.exp(-hidden @ self.weights["out"]))
        wrong = (guess - sides) / BATCH
        inner = np.outer(wrong, self.weights["out"]) * (1 - hidden**2)
        slopes = {"into": points.T @ inner, "bias": inner.sum(axis=0), "out": hidden.T @ wrong}
        for name, slope in slopes.items():
            self.speed[name] = MOMENTUM * self.speed[name] - RATE * slope
            self.weights[name] += self.speed[name]
        return float(-np.log(np.where(sides == 1, guess, 1 - guess) + 1e-9).mean())

    def save(self, folder: Path) -> None:
        """Write everything that the next step depends on."""
        np.savez(folder / "weights.npz", **self.weights)
        np.savez(folder / "speed.npz", **self.speed)
        (folder / "chance.json").write_text(json.dumps(self.chance.bit_generator.state))

    def load(self, folder: Path) -> None:
        """Be where that was written."""
        with np.load(folder / "weights.npz") as weights, np.load(folder / "speed.npz") as speed:
            self.weights, self.speed = dict(weights), dict(speed)
        self.chance.bit_generator.state = json.loads((folder / "chance.json").read_text())


def spirals(chance: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Points of two spirals, and on which of them each lies."""
    sides = chance.integers(0, 2, BATCH)
    turn = chance.uniform(0.5, 3, BATCH)
    angle = 2 * turn + np.pi * sides
    points = np.stack([turn * np.cos(angle), turn * np.sin(angle)], axis=1)
    return points + chance.normal(scale=0.05, size=points.shape), sides


def main() -> None:
    """Train the network of this worker."""
    index = os.environ.get("JOB_COMPLETION_INDEX", "0")
    network = Network(seed=int(index))
    work = Checkpoint(Path(os.environ["CHECKPOINTS"], index), network.save, network.load)
    pause_s = float(os.environ.get("PAUSE_S", "0"))
    begun = False
    for step in work.steps(STEPS):
        if not begun:
            print(f"worker {index} begins after step {step}", flush=True)
            begun, pause_s = True, 0.0 if step else pause_s  # who comes back hurries
        loss = network.step()
        print(f"step {step + 1} loss {loss:.3f}", flush=True)
        time.sleep(pause_s)
    print("done", flush=True)


if __name__ == "__main__":
    main()
