"""The words of a scenario file, part by part: pydantic models, from which its schema is generated.

`ScenarioWords` is a whole file; the classes before it are its parts and its expectations. Models
only say what may be written; `build.py` turns them into objects of the model, and
`model/validation/cluster.py` checks whether these are consistent. The docstrings are the
descriptions of the schema.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag

from windlass.model.constraints import HOSTNAME
from windlass.model.jobs import Overrun
from windlass.model.reasons import ReasonCode
from windlass.sim.scenario.amounts import (
    Amounts,
    Count,
    Cpus,
    Gpus,
    MemoryMib,
    Name,
    Seconds,
    SecondsOrNever,
    SecondsOrRest,
)


class ScenarioModel(BaseModel):
    """The base of all parts: values are not coerced, and unknown words are errors."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


def default(written: str) -> Any:
    """Return a default as it would be written, for the schema."""
    return Field(json_schema_extra={"default": written})


class SettingsWords(ScenarioModel):
    """The engine's settings; a setting that is not given keeps its default."""

    nodes: Literal["pack", "spread"] = "pack"
    """Fill used nodes first, or use the emptiest first."""
    gpus: Literal["pack", "spread"] = "pack"
    """The same for GPUs inside a node."""
    half_life: Annotated[Seconds, default("7d")] = 7 * 24 * 3600
    """After this time, past usage counts half."""
    usage_effect: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """The strength with which usage changes the shares of the surplus; 0 turns it off."""
    epoch: Annotated[Seconds, default("1m")] = 60
    """Usage changes shares only this often."""
    reserve_after: Annotated[Seconds, default("30m")] = 1800
    """The first gang of a queue gets a reservation after it has waited this long."""
    order: Literal["fair", "first-come", "shortest", "least-served"] = "fair"
    """The order inside a queue, among equal priorities: fair between users; oldest first; least GPU
    time until the expected end first; least GPU time used so far first."""
    age: Seconds = 0
    """Each time a job has waited this long, the last two orders count it as one level better."""
    displacing: list[Literal["consolidate", "reclaim", "preempt"]] = [
        "consolidate",
        "reclaim",
        "preempt",
    ]
    """The actions allowed for a job that finds no room: move running jobs, reclaim from another
    queue, preempt lower priorities of its own queue. An empty list allows none."""
    victims: Literal["least-harm", "youngest", "lowest-priority"] = "least-harm"
    """The choice among possible victims: lowest restart cost, the youngest, or by priority
    alone."""
    min_run: Seconds = 0
    """A job is not displaced before it has run this long, unless its queue says otherwise."""
    dwell: Annotated[Seconds, default("10m")] = 600
    """A job that has run for less is neither moved nor reclaimed towards shares."""
    patience: Annotated[Seconds, default("30m")] = 1800
    """A job waits this long before others lose far more than it needs."""
    stale_after: Annotated[SecondsOrNever, default("1m")] = 60
    """A job that has run below its minimum for this long is evicted."""
    stuck_after: Annotated[Seconds, default("10m")] = 600
    """A task that has been terminating for this long is not expected to come free."""
    longest_grace: Annotated[Seconds, default("10m")] = 600
    """On a cluster, the longest termination grace period of a pod, whatever the pod asks for."""
    lost_after: Annotated[SecondsOrNever, default("1m")] = 60
    """Jobs on a node that has not answered for this long start elsewhere."""
    delete_from_lost: bool = False
    """On a cluster, pods that hang on such a node are deleted without its confirmation."""
    heed_notices: bool = True
    """Jobs on a node that is about to go start elsewhere before it does."""
    quarantine_after: Annotated[int, Field(ge=0, le=10**6)] = 3
    """A node on which this many different jobs failed, without a success since, takes no new tasks;
    0 turns it off."""
    quarantine: Annotated[Seconds, default("1h")] = 3600
    """The length of a quarantine."""
    give_up_after: Annotated[int, Field(ge=0, le=10**6)] = 6
    """A job that failed this often, on three nodes or more, is not tried again; 0 turns it off."""
    failure_window: Annotated[Seconds, default("1h")] = 3600
    """The time for which a failure counts."""
    search_again: Annotated[Seconds, default("30s")] = 30
    """After a failed search for victims a job waits at least this long for the next one."""
    search_steps: Annotated[int, Field(ge=1, le=10**9)] = 20_000
    """The number of search steps in one cycle for jobs that found no room; the next cycle
    continues."""


class TopologyWords(ScenarioModel):
    """A topology: labels that say which nodes share a fast link."""

    name: Name
    levels: list[Name]
    """Label keys of the nodes, the widest first."""


class GpusWords(ScenarioModel):
    """The GPUs of a node."""

    model: Name
    """The model, such as H100-80GB."""
    count: Annotated[int, Field(ge=1, le=64)] = 1
    memory: MemoryMib | None = None
    """The memory of each GPU; known for common models."""
    mig: bool = False
    """True if they are divided into MIG instances."""
    unhealthy: list[Annotated[int, Field(ge=0, le=63)]] = []
    """The indexes of broken GPUs."""


class TaintWords(ScenarioModel):
    """A taint: the node refuses tasks that do not tolerate it."""

    key: Name
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class NodeWords(ScenarioModel):
    """A machine, or `count` equal ones."""

    name: Name
    count: Annotated[int, Field(ge=1, le=20_000)] | None = None
    """The number of nodes, named NAME-0, NAME-1 and so on."""
    cpu: Cpus = 0
    memory: MemoryMib = 0
    pods: Annotated[int, Field(ge=0, le=100_000)] = 110
    """The number of tasks that it takes."""
    gpus: GpusWords | None = None
    extra: dict[str, Annotated[int, Field(ge=0)]] = {}
    """Other resources by name."""
    labels: dict[str, str] = {}
    every: dict[str, Count] = {}
    """Labels that change every so many nodes: {rack: 2} gives rack-0 to two nodes, then rack-1;
    the numbers go on through the whole file."""
    taints: list[TaintWords] = []
    cordoned: bool = False
    """True if it takes no new tasks."""


class QueueWords(ScenarioModel):
    """A team, department or project."""

    name: Name
    parent: Name | None = None
    """The queue above it; none: a top queue."""
    guarantee: Amounts = {}
    """The amounts that it can always have."""
    limit: Amounts = {}
    """The amounts that it never exceeds."""
    lend: Amounts = {}
    """The part of its idle guarantee that others may use; all of it, if not given."""
    weight: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """Its part of the surplus among its siblings."""
    tier: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Higher tiers take surplus before lower ones see any."""
    min_run: Seconds | None = None
    """Its jobs are not displaced before they have run this long; as the queue above says, if not
    given."""


class DomainWords(ScenarioModel):
    """A topology constraint: tasks close together."""

    topology: Name | None = None
    """The topology; may be left out if there is only one."""
    level: Name
    """All tasks inside one domain of this level."""
    required: bool = True
    """False: as close as possible, but starting is more important."""


class MigWords(ScenarioModel):
    """MIG instances for each task."""

    profile: Name
    """The profile, such as 3g.40gb."""
    count: Annotated[int, Field(ge=1, le=64)] = 1


class ConditionWords(ScenarioModel):
    """A condition on one label."""

    key: Name
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"] = "In"
    values: list[str] = []


class PreferenceWords(ScenarioModel):
    """Nodes that are worth `weight` points more."""

    weight: Annotated[int, Field(ge=1, le=100)] = 1
    term: list[ConditionWords]
    """The conditions, all of which must hold."""


class TolerationWords(ScenarioModel):
    """The tolerated taints: without a key all taints, without a value any value."""

    key: Name | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class NeighbourWords(ScenarioModel):
    """The tasks to be near to or apart from; without `job` and `labels`, those of this job
    itself."""

    job: Name | None = None
    labels: dict[str, str] = {}
    over: Name = HOSTNAME
    """The node label whose domains count; the node itself, if not given."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """If given, a preference of this weight instead of a requirement."""


class SpreadWords(ScenarioModel):
    """The tasks to keep even over domains; without `job` and `labels`, those of this job itself."""

    over: Name = HOSTNAME
    """The node label whose domains count; the node itself, if not given."""
    max_skew: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """No domain has more tasks than this above the emptiest domain."""
    job: Name | None = None
    labels: dict[str, str] = {}
    required: bool = True


class AskWords(ScenarioModel):
    """The request of each task, and the nodes where it may run."""

    gpus: Gpus | None = None
    """Whole GPUs for each task, or a fraction of one."""
    gpu_memory: MemoryMib | None = None
    """GPU memory on a GPU of any model."""
    mig: MigWords | None = None
    devices: Annotated[int, Field(ge=1, le=64)] | None = None
    """With a fraction or gpu_memory: the number of GPUs, each with this amount; 1, if not given."""
    models: list[Name] = []
    """The GPU models that are acceptable; any, if not given."""
    cpu: Cpus = 0
    memory: MemoryMib = 0
    extra: dict[str, Annotated[int, Field(ge=0)]] = {}
    selector: dict[str, str] = {}
    """The labels that a node must have."""
    affinity: list[list[ConditionWords]] = []
    """One of these lists of conditions must hold for the node."""
    preferences: list[PreferenceWords] = []
    tolerations: list[TolerationWords] = []
    near: list[NeighbourWords] = []
    apart: list[NeighbourWords] = []
    spread: list[SpreadWords] = []
    labels: dict[str, str] = {}
    """Labels of the tasks; each also has the label `job`."""


class GroupWords(AskWords):
    """A group of a job with tasks of its own; words that it does not give are taken from
    the job."""

    name: Name
    tasks: Count = 1
    minimum: Annotated[int, Field(ge=0)] | None = None
    """The number of its tasks that start with the job, the others start when there is room; all, if
    not given."""
    domain: DomainWords | None = None
    """A domain for the tasks of this group."""


class JobWords(AskWords):
    """A job: tasks that start together or not at all."""

    name: Name
    queue: Name
    at: Seconds = 0
    """The time of submission."""
    count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """The number of equal jobs, named NAME-0, NAME-1 and so on."""
    tasks: Count | None = None
    """The number of tasks; 1, if not given."""
    minimum: Annotated[int, Field(ge=1)] | None = None
    """The number of tasks that start together, the others start when there is room; all, if not
    given."""
    groups: list[GroupWords] = []
    """The groups of tasks that differ, instead of `tasks`."""
    domain: DomainWords | None = None
    """A domain for all its tasks."""
    user: str = ""
    namespace: Name = "default"
    priority: Annotated[int, Field(ge=-(2**31) + 1, le=2**31 - 1)] = 0
    preemptible: bool = True
    """False: it must stay within its queue's guarantee, and is never a victim."""
    runs: Annotated[Seconds, Field(ge=1)] | None = None
    """The run time of its tasks; until it is deleted, if not given. The scheduler does not see
    this."""
    expected: Seconds | None = None
    """The run time that the scheduler is told."""
    fails_after: Annotated[Seconds, Field(ge=1)] | None = None
    """The time after its start at which its first task fails once and is replaced."""
    deleted_at: Seconds | None = None
    """The time at which its user deletes it."""
    displaces_after: SecondsOrNever = 0
    """The time for which it waits for free room before others are displaced for it."""
    stale_after: SecondsOrNever | None = None
    """The time for which it may run below its minimum; as the settings say, if not given."""
    saves_every: Annotated[Seconds, Field(ge=1)] | None = None
    """The period of its own checkpoints; a restart continues from the last. Not given: it starts
    over."""
    saves_within: Annotated[Seconds, Field(ge=1)] | None = None
    """It accepts checkpoint requests and may take this long to answer; not given: it does not."""
    saving: SecondsOrNever | None = None
    """The time that it really takes to save on request; `saves_within`, if not given; `never`: no
    answer."""
    max_run: Annotated[Seconds, Field(ge=1)] | None = None
    """The maximum run time at a stretch; then it saves, if it can, and stops."""
    overrun: Annotated[Overrun, Field(strict=False)] | None = None
    """The action after that: `end`, if not given, or `requeue`."""
    hurry: Annotated[Seconds, Field(ge=1)] | None = None
    """The longest time that victims of this job get to save."""
    terminates: Annotated[SecondsOrNever, default("10s")] = 10
    """The time for which its tasks keep their devices after an eviction; `never`, like
    stuck pods."""


class EventWords(ScenarioModel):
    """An event; exactly one of the words besides `at`."""

    at: Seconds
    node_gone: Name | None = None
    """A node fails; its tasks are lost."""
    node_back: Name | None = None
    """A node returns, or is healthy again."""
    node_silent: Name | None = None
    """A node does not answer any more; its tasks make no progress."""
    node_leaves: Name | None = None
    """A node is about to go, like a spot machine after its notice."""
    node_breaks: Name | None = None
    """Every task on the node fails after half a minute from now on."""
    node_mended: Name | None = None
    """Tasks on the node do not fail any more."""
    cordon: Name | None = None
    """The node takes no new tasks."""
    uncordon: Name | None = None
    """The node takes tasks again."""
    delete: Name | None = None
    """A user deletes a job."""


def names_of(entry: NodeWords | JobWords) -> list[str]:
    """Return the names of an entry: its own, or numbered ones if it has a count."""
    if entry.count is None:
        return [entry.name]
    return [f"{entry.name}-{number}" for number in range(entry.count)]


class JobExpectation(ScenarioModel):
    """An expectation about a job; about every copy, if it has a count."""

    job: Name
    at: Annotated[SecondsOrRest, default("rest")] = None
    """The time; at rest, if not given."""
    copies: Annotated[int, Field(ge=0)] | None = None
    """The exact number of copies in this state for this reason, instead of all."""
    state: (
        Literal["absent", "waiting", "never", "running", "finished", "deleted", "overran"] | None
    ) = None
    """`never`: it waits and can never start; `absent`: not yet submitted; `overran`: ended at its
    maximum run time."""
    reason: Annotated[ReasonCode, Field(strict=False)] | None = None
    """One of the reasons why it waits."""
    tasks: Annotated[int, Field(ge=0)] | None = None
    """The number of tasks that are bound or run, of all copies together."""
    node: Name | None = None
    """The node on which all of those tasks are."""
    nodes: Annotated[int, Field(ge=0)] | None = None
    """The number of different nodes of those tasks."""
    devices: Annotated[int, Field(ge=0)] | None = None
    """The number of different GPUs of those tasks."""
    model: Name | None = None
    """The model of all their GPUs."""
    within: Name | None = None
    """A level (a node label): all tasks are in one domain of it."""
    started_at: Seconds | None = None
    started_before: Name | None = None
    """A job that started later than this one."""
    finished_at: Seconds | None = None
    waited_at_most: Seconds | None = None
    """The time from submission to its start, or until now."""
    waited_at_least: Seconds | None = None
    restarts: Annotated[int, Field(ge=0)] | None = None
    """The number of its tasks that were lost and replaced."""
    evicted: Annotated[int, Field(ge=0)] | None = None
    """The number of its tasks that were evicted without another place."""
    moved: Annotated[int, Field(ge=0)] | None = None
    """The number of its tasks that were moved to a place held for them."""
    displaced_by: Name | None = None
    """One of the jobs for which it was evicted or moved."""


class QueueExpectation(ScenarioModel):
    """An expectation about a queue and all queues below it."""

    queue: Name
    at: Annotated[SecondsOrRest, default("rest")] = None
    """The time; at rest, if not given."""
    model: Name | None = None
    """Count GPUs of this model only."""
    gpus: Gpus | None = None
    """The exact number of its GPUs."""
    gpus_at_most: Gpus | None = None
    gpus_at_least: Gpus | None = None
    share: Gpus | None = None
    """The share that it should have now, in GPUs."""
    running: Annotated[int, Field(ge=0)] | None = None
    """The number of its running jobs."""
    waiting: Annotated[int, Field(ge=0)] | None = None
    """The number of its waiting jobs."""


class NodeExpectation(ScenarioModel):
    """An expectation about a node."""

    node: Name
    at: Annotated[SecondsOrRest, default("rest")] = None
    """The time; at rest, if not given."""
    gpus: Gpus | None = None
    """The number of its GPUs in use."""
    tasks: Annotated[int, Field(ge=0)] | None = None
    """The number of tasks on it."""


def _kind(value: object) -> str | None:
    """Return the kind of an expectation: the first word that names an object decides."""
    if isinstance(value, Mapping):
        kinds = (kind for kind in ("job", "queue", "node") if kind in value)
        return next((f"{kind} expectation" for kind in kinds), None)
    return None


ExpectWords = Annotated[
    Annotated[JobExpectation, Tag("job expectation")]
    | Annotated[QueueExpectation, Tag("queue expectation")]
    | Annotated[NodeExpectation, Tag("node expectation")],
    Discriminator(_kind),
]


class ScenarioWords(ScenarioModel):
    """A cluster, the events that happen to it, and the expected result."""

    name: Name
    about: str = ""
    """The idea that the scenario teaches."""
    settings: SettingsWords = SettingsWords()
    topologies: list[TopologyWords] = Field(default_factory=list[TopologyWords])
    nodes: Annotated[list[NodeWords], Field(min_length=1)]
    queues: Annotated[list[QueueWords], Field(min_length=1)]
    jobs: list[JobWords] = Field(default_factory=list[JobWords])
    events: list[EventWords] = Field(default_factory=list[EventWords])
    expect: list[ExpectWords] = Field(default_factory=list[ExpectWords])
    until: Seconds | None = None
    """The end of the simulation; not given: when nothing happens any more."""
