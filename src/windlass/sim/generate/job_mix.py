"""The parameters of generated work, and the site for which it is drawn."""

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
"""The relative activity of people, hour by hour; only the proportions matter."""
WEEKEND_PERCENT = 40
"""The activity on Saturdays and Sundays, in percent of a working day."""


@dataclass(frozen=True, slots=True)
class JobMix:
    """The composition of the generated work. Parts are percent of the cluster's GPU capacity."""

    load_percent: int = 90
    """The offered load of all work as requested, on average; by day it is higher."""
    sweeps_percent: int = 8
    services_percent: int = 24
    notebooks_percent: int = 8
    median_minutes: int = 40
    longest_minutes: int = 8 * 60
    failing_percent: int = 3
    """Training gangs in which one task fails once."""
    estimated_percent: int = 75
    """Training gangs whose user estimates the duration."""
    saving_percent: int = 60
    """Training gangs that save their work periodically."""
    asked_percent: int = 60
    """Training gangs that answer checkpoint requests within two minutes, whether they save by
    themselves or not."""
    urgent_percent: int = 0
    """Training gangs of at most 8 GPUs with a higher priority than all others of their team; they
    preempt."""
    evening_hours: int = 5
    """Work left from the evening before, to run overnight, in average hours of load."""
    losses_per_day: int = 1
    """Nodes that fail, per day and 24 nodes."""

    @property
    def training_percent(self) -> int:
        """The part that is left for training."""
        others = self.sweeps_percent + self.services_percent + self.notebooks_percent
        return max(0, self.load_percent - others)


DEFAULT_MIX = JobMix()

URGENT = 100
"""The priority of urgent gangs."""
SAVES_WITHIN_S = 120
"""The time in seconds within which a gang answers a checkpoint request."""
SIZES = {2: 22, 4: 26, 8: 28, 16: 13, 32: 8, 64: 3}
"""The GPUs of a training gang, and how many of a hundred gangs have this size."""
TEAMS = {"language": 45, "vision": 32, "ranking": 23}
LARGE_TEAMS = {"language": 80, "vision": 12, "ranking": 8}
"""The weights of the teams for gangs of more than 16 GPUs; `TEAMS` for the others."""
WORDS = {"language": "tune", "vision": "detect", "ranking": "rank"}
SERVICES = ("chat", "embed", "search", "ocr", "translate", "speech", "moderate", "caption")
REPLICAS = {
    GpuRequest(milli=250, models=(L40S.model, A100.model)): 25,
    GpuRequest(milli=400, models=(L40S.model, A100.model)): 20,
    GpuRequest(milli=500, models=(L40S.model, A100.model)): 20,
    GpuRequest(memory_mib=20 * 1024): 15,
    GpuRequest(): 20,
}
"""The requests of service replicas, with weights."""
NOTEBOOKS = {
    GpuRequest(profile="1g.10gb"): 25,
    GpuRequest(profile="2g.20gb"): 15,
    GpuRequest(milli=250): 20,
    GpuRequest(milli=500): 20,
    GpuRequest(): 20,
}
"""The requests of notebooks, with weights."""


@dataclass(frozen=True, slots=True)
class Site:
    """The cluster and the time for which work is drawn."""

    seed: int
    mix: JobMix
    hours: int
    nodes: tuple[Node, ...]

    def chance(self, kind: str) -> Random:
        """Return a random generator for one kind of work, so that one kind can change without the
        others."""
        return Random(f"windlass {self.seed} {kind}")

    @property
    def gpus(self) -> int:
        """The number of GPUs."""
        return sum(len(node.gpus) for node in self.nodes)

    def of_model(self, gpu: Gpu) -> int:
        """Return the number of GPUs of a model, without MIG devices."""
        return sum(each == gpu for node in self.nodes for each in node.gpus)

    def wanted(self, gpu: GpuRequest) -> GpuRequest:
        """Return the request with only those GPU models that this site has."""
        here = {each.model for node in self.nodes for each in node.gpus if not each.mig}
        return replace(gpu, models=tuple(model for model in gpu.models if model in here))

    def hourly(self, percent: int) -> Iterator[tuple[int, int]]:
        """Yield the start of each hour and the GPU-seconds of work submitted in it."""
        average = self.gpus * HOUR * percent // 100
        for hour in range(self.hours):
            amount = average * 24 * OFFICE[hour % 24] // sum(OFFICE)
            amount = amount * WEEKEND_PERCENT // 100 if is_weekend(hour // 24) else amount
            yield hour * HOUR, amount + (average * self.mix.evening_hours if hour == 0 else 0)


def is_weekend(day: int) -> bool:
    """Return whether a day is a Saturday or a Sunday; day 0 is a Monday."""
    return day % 7 >= 5


def pick(chance: Random, weights: Mapping[Choice, int]) -> Choice:
    """Return one of the choices at random, by weight."""
    return chance.choices(list(weights), list(weights.values()))[0]
