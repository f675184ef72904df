"""The schema of a file of foreign scenarios.

Names and units are the corpus's own (GPUs, cores, bytes, MB, minutes; -1 is unlimited);
`translate.py` turns them into ours. Keys that are not listed here do not affect a decision:
sources, checksums, and values that its authors never verified.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, TypeAlias

import msgspec

from windlass.model.errors import InputError

UNLIMITED = -1
MB = 1_000_000


class PlayMode(StrEnum):
    """The way in which a scenario is played."""

    FULL_CYCLE = "full_cycle"
    """All actions, round after round, until the states rest."""
    SINGLE_PASS = "single_pass"
    """The listed actions, once."""


class TaskStatus(StrEnum):
    """The state of a task."""

    PENDING = "Pending"
    BINDING = "Binding"
    """Bound in this pass."""
    RUNNING = "Running"
    RELEASING = "Releasing"
    STUCK = "StuckInReleasing"
    """Terminating for ever."""
    PIPELINED = "Pipelined"
    """Placed on capacity that is still being freed; our *held*."""
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class Doing(StrEnum):
    """The actions that a pass may take."""

    ALLOCATE = "allocate"
    CONSOLIDATE = "consolidation"
    RECLAIM = "reclaim"
    PREEMPT = "preempt"
    STALE = "stalegangeviction"


class ForeignAmounts(msgspec.Struct, frozen=True):
    """The amounts of one resource that a queue may have."""

    quota: float = UNLIMITED
    limit: float = UNLIMITED
    over_quota_weight: float = 1


class ForeignQueue(msgspec.Struct, frozen=True):
    """A queue of the tree."""

    name: str
    parent: str | None = None
    gpu: ForeignAmounts = ForeignAmounts()
    cpu_milli: ForeignAmounts = ForeignAmounts()
    memory_mb: ForeignAmounts = ForeignAmounts()
    priority: int = 100
    implicit: bool = False


class ForeignNode(msgspec.Struct, frozen=True):
    """A machine; MIG instances are fixed."""

    name: str
    gpus: int = 0
    gpu_memory_mib: int = 100
    cpu: float = 20000
    memory: float = 20_000_000_000
    max_pods: int = 110
    labels: dict[str, str] = {}
    mig_strategy: str | None = None
    mig_instances: dict[str, int] = {}


class ForeignTopology(msgspec.Struct, frozen=True):
    """Labels of nodes, the widest first."""

    name: str
    levels: list[str]


class Closeness(msgspec.Struct, frozen=True):
    """A required or preferred domain of a topology; empty: anywhere."""

    topology: str = ""
    required: str | None = None
    preferred: str | None = None


class Podset(msgspec.Struct, frozen=True):
    """Tasks of which a minimum starts together."""

    name: str
    min_available: int = 1
    topology: Closeness | None = None


class Tree(msgspec.Struct, frozen=True):
    """A gang, or a part of one: it needs this many of its parts, or all."""

    name: str = ""
    podsets: list[Podset] = []
    groups: list[Tree] = []
    min_subgroups: int | None = None
    topology: Closeness | None = None


class ForeignRequest(msgspec.Struct, frozen=True):
    """The request of each task of a job."""

    gpus: float = 0
    gpu_fraction: float | None = None
    gpu_memory_mib: float | None = None
    num_devices: int = 1
    cpu: float = 1
    memory: float = 1_000_000_000


class ForeignTask(msgspec.Struct, frozen=True):
    """One pod."""

    name: str
    state: TaskStatus = TaskStatus.PENDING
    node: str | None = None
    gpu_groups: list[str] = []
    subgroup: str | None = None
    gpus: float | None = None
    mig: dict[str, int] = {}
    legacy_mig: bool = False
    """It uses MIG in a way that is not counted: it is never placed, and makes its node unusable for
    MIG."""
    node_names_allowed: list[str] | None = None
    task_priority: int = 0


class ForeignJob(msgspec.Struct, frozen=True):
    """A gang of tasks."""

    name: str
    queue: str
    tasks: list[ForeignTask]
    gang: Tree
    request: ForeignRequest = ForeignRequest()
    priority: int = 50
    preemptible: bool = True
    age_minutes: float = 0
    preemption_delay_s: float | None = None
    stale_for_s: float | None = None
    staleness_grace_s: float | None = None
    stays_releasing: bool = False


class ExpectedState(msgspec.Struct, frozen=True):
    """The state of a task, or of every task of a job."""

    status: TaskStatus
    node: str | None = None


class ExpectedNode(msgspec.Struct, frozen=True):
    """The whole GPUs that are free, and that are being freed."""

    idle_gpus: int | None = None
    releasing_gpus: int | None = None


class Expectations(msgspec.Struct, frozen=True):
    """The expectations of a scenario's authors; the bounds are upper bounds."""

    jobs: dict[str, ExpectedState] = {}
    tasks: dict[str, ExpectedState] = {}
    nodes: dict[str, ExpectedNode] = {}
    max_binds: int | None = None
    max_evictions: int | None = None
    max_pipelines: int | None = None


class ForeignScenario(msgspec.Struct, frozen=True):
    """A cluster, the allowed actions, and the expected outcome."""

    id: str
    mode: PlayMode
    actions: list[Doing]
    queues: list[ForeignQueue]
    nodes: list[ForeignNode]
    jobs: list[ForeignJob]
    expect: Expectations
    name: str = ""
    topologies: list[ForeignTopology] = []
    rounds_until_match: int = 2
    rounds_after_match: int = 5
    features: list[str] = []


Format: TypeAlias = Literal["kai-scenarios/1"]


class Corpus(msgspec.Struct, frozen=True):
    """A file of scenarios."""

    scenarios: list[ForeignScenario]
    format: Format = "kai-scenarios/1"


def read(data: bytes, file: str) -> list[ForeignScenario]:
    """Return the scenarios in the bytes of a file."""
    try:
        return msgspec.json.decode(data, type=Corpus).scenarios
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        told = " ".join(str(error).replace("`", "").split()).rstrip(".")
        said = told if told.startswith("JSON") else told[:1].lower() + told[1:]
        found = f"these are not foreign scenarios: {said}"
        sentence = f"{found}; write them as the reference of windlass conformance says"
        raise InputError(file, None, sentence) from None
