"""What generated work is made of: the numbers, and the site for which it is drawn."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, replace
from random import Random
from typing import TypeVar

from windlass.model.gpus import Gpu, GpuRequest
from windlass.model.nodes import Node
from windlass.sim.generate.cluster import A100, L40S

Choice = TypeVar("Choice", bound=Hashable)

HOUR = 3600
DAY = 24 * HOUR

OFFICE = (9, 8, 8, 7, 7, 7, 8, 9, 11, 13, 14, 14, 13, 13, 14, 14, 14, 13, 12, 11, 11, 10, 10, 9)
"""How busy people are, hour by hour; only the proportions matter."""
WEEKEND_PERCENT = 40
"""How busy they are on Saturdays and Sundays, of a working day."""


@dataclass(frozen=True, slots=True)
class JobMix:
    """What the generated work is made of. Parts are percent of the cluster's GPU capacity."""

    load_percent: int = 90
    """Offered load, everything together and as asked for, on average; by day it is above."""
    sweeps_percent: int = 8
    services_percent: int = 24
    notebooks_percent: int = 8
    median_minutes: int = 40
    longest_minutes: int = 8 * 60
    failing_percent: int = 3
    """Training gangs of which a task fails once on the way."""
    estimated_percent: int = 75
    """Training gangs whose user says how long it will take."""
    saving_percent: int = 60
    """Training gangs that save their work on the way."""
    asked_percent: int = 60
    """Training gangs that can be asked to save, within two minutes, whether they else do or not."""
    urgent_percent: int = 0
    """Training gangs of at most 8 GPUs that come before all others of their team, and displace."""
    evening_hours: int = 5
    """How many average hours of work are left from the evening before, to run overnight."""
    losses_per_day: int = 1
    """Nodes that fail, per day and 24 nodes."""

    @property
    def training_percent(self) -> int:
        """What is left for training."""
        others = self.sweeps_percent + self.services_percent + self.notebooks_percent
        return max(0, self.load_percent - others)


DEFAULT_MIX = JobMix()

URGENT = 100
"""The priority of urgent gangs."""
SAVES_WITHIN_S = 120
"""How long a gang may take to save when it is asked to."""
SIZES = {2: 22, 4: 26, 8: 28, 16: 13, 32: 8, 64: 3}
"""GPUs of a training gang, and how many of a hundred gangs are so large."""
TEAMS = {"language": 45, "vision": 32, "ranking": 23}
LARGE_TEAMS = {"language": 80, "vision": 12, "ranking": 8}
"""Who trains, and who trains on more than 16 GPUs."""
WORDS = {"language": "tune", "vision": "detect", "ranking": "rank"}
SERVICES = ("chat", "embed", "search", "ocr", "translate", "speech", "moderate", "caption")
REPLICAS = {
    GpuRequest(milli=250, models=(L40S.model, A100.model)): 25,
    GpuRequest(milli=400, models=(L40S.model, A100.model)): 20,
    GpuRequest(milli=500, models=(L40S.model, A100.model)): 20,
    GpuRequest(memory_mib=20 * 1024): 15,
    GpuRequest(): 20,
}
"""What a replica of a service asks for, with weights."""
NOTEBOOKS = {
    GpuRequest(profile="1g.10gb"): 25,
    GpuRequest(profile="2g.20gb"): 15,
    GpuRequest(milli=250): 20,
    GpuRequest(milli=500): 20,
    GpuRequest(): 20,
}
"""What a notebook asks for, with weights."""


@dataclass(frozen=True, slots=True)
class Site:
    """The cluster and the time for which work is drawn."""

    seed: int
    mix: JobMix
    hours: int
    nodes: tuple[Node, ...]

    def chance(self, kind: str) -> Random:
        """Every kind of work draws for itself, so that one can change without the others."""
        return Random(f"windlass {self.seed} {kind}")

    @property
    def gpus(self) -> int:
        """How many there are."""
        return sum(len(node.gpus) for node in self.nodes)

    def of_model(self, gpu: Gpu) -> int:
        """How many there are of a model, MIG aside."""
        return sum(each == gpu for node in self.nodes for each in node.gpus)

    def wanted(self, gpu: GpuRequest) -> GpuRequest:
        """The request as this site can serve it: a small one does not have every model."""
        here = {each.model for node in self.nodes for each in node.gpus if not each.mig}
        return replace(gpu, models=tuple(model for model in gpu.models if model in here))

    def hourly(self, percent: int) -> Iterator[tuple[int, int]]:
        """Each hour's start, and the GPU-seconds of work that is submitted in it."""
        average = self.gpus * HOUR * percent // 100
        for hour in range(self.hours):
            amount = average * 24 * OFFICE[hour % 24] // sum(OFFICE)
            amount = amount * WEEKEND_PERCENT // 100 if is_weekend(hour // 24) else amount
            yield hour * HOUR, amount + (average * self.mix.evening_hours if hour == 0 else 0)


def is_weekend(day: int) -> bool:
    """Is it a Saturday or a Sunday? Day 0 is a Monday."""
    return day % 7 >= 5


def pick(chance: Random, weights: Mapping[Choice, int]) -> Choice:
    """One of the choices, as often as its weight says."""
    return chance.choices(list(weights), list(weights.values()))[0]
