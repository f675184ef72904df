"""The words of a scenario file, part by part: pydantic models, from which its schema is generated.

`scenario_schema.py` puts the parts together and adds what is expected. Models only say what may be
written; `build.py` turns them into the model's nouns, and `model/validation/cluster.py` judges
whether those make sense together. The docstrings are the descriptions of the schema.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from windlass.model.constraints import HOSTNAME
from windlass.model.jobs import Overrun
from windlass.sim.scenario.amounts import (
    Amounts,
    Count,
    Cpus,
    Gpus,
    MemoryMib,
    Name,
    Seconds,
    SecondsOrNever,
)


class ScenarioModel(BaseModel):
    """What all parts share: nothing is guessed, and unknown words are errors."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, use_attribute_docstrings=True
    )


def default(written: str) -> Any:
    """A default as it would be written, for the schema."""
    return Field(json_schema_extra={"default": written})


class SettingsWords(ScenarioModel):
    """The engine's settings; what is not given keeps its default."""

    nodes: Literal["pack", "spread"] = "pack"
    """Fill used nodes first, or use the emptiest first."""
    gpus: Literal["pack", "spread"] = "pack"
    """The same for GPUs inside a node."""
    half_life: Annotated[Seconds, default("7d")] = 7 * 24 * 3600
    """After this time, past usage counts half."""
    usage_effect: Annotated[float, Field(ge=0, le=1000)] = 1.0
    """How strongly usage bends the shares of the surplus; 0 turns it off."""
    epoch: Annotated[Seconds, default("1m")] = 60
    """Usage changes shares only this often."""
    reserve_after: Annotated[Seconds, default("30m")] = 1800
    """The head of the line gets a reservation after waiting this long."""
    order: Literal["fair", "first-come", "shortest", "least-served"] = "fair"
    """Who is next inside a queue, of equal priority: the user who has and had least; the oldest;
    whoever needs least GPU time until its expected end; whoever has had least GPU time."""
    age: Seconds = 0
    """Each time a job has waited so long, the last two orders count it as one level better."""
    displacing: list[Literal["consolidate", "reclaim", "preempt"]] = [
        "consolidate",
        "reclaim",
        "preempt",
    ]
    """What may be done for a job that finds no room: move running jobs, take back from another
    queue, stop lower priorities of its own queue. An empty list: nothing."""
    victims: Literal["least-harm", "youngest", "lowest-priority"] = "least-harm"
    """Whom to displace, of those that may be: whoever loses least, the youngest, or by priority
    alone."""
    min_run: Seconds = 0
    """Nothing is displaced before it has run so long, unless its queue says otherwise."""
    dwell: Annotated[Seconds, default("10m")] = 600
    """What runs for less is neither moved nor reclaimed towards shares."""
    patience: Annotated[Seconds, default("30m")] = 1800
    """So long a job waits for a gentler way, before others lose far more than it needs."""
    stale_after: Annotated[SecondsOrNever, default("1m")] = 60
    """A job that has run below its minimum for so long is given back."""
    stuck_after: Annotated[Seconds, default("10m")] = 600
    """What has been terminating for so long is not expected to come free."""
    longest_grace: Annotated[Seconds, default("10m")] = 600
    """On a cluster: no pod has longer than this to end, whatever grace it asks for."""
    lost_after: Annotated[SecondsOrNever, default("1m")] = 60
    """Jobs on a node that has not answered for so long start elsewhere."""
    delete_from_lost: bool = False
    """On a cluster: pods that hang on such a node are deleted without its word."""
    heed_notices: bool = True
    """Jobs on a node that is about to go start elsewhere before it does."""
    quarantine_after: Annotated[int, Field(ge=0, le=10**6)] = 3
    """A node on which so many different jobs failed, and nothing ended well since, takes nobody
    new; 0: it always does."""
    quarantine: Annotated[Seconds, default("1h")] = 3600
    """For so long."""
    give_up_after: Annotated[int, Field(ge=0, le=10**6)] = 6
    """A job that failed so often, on three nodes or more, is not tried again; 0: it always is."""
    failure_window: Annotated[Seconds, default("1h")] = 3600
    """For so long a failure counts."""
    search_again: Annotated[Seconds, default("30s")] = 30
    """After a search in vain a job waits at least so long for the next one."""
    search_steps: Annotated[int, Field(ge=1, le=10**9)] = 20_000
    """How much one cycle may try for jobs that found no room; the next goes on from there."""


class TopologyWords(ScenarioModel):
    """Which nodes share a fast link."""

    name: Name
    levels: list[Name]
    """Label keys of the nodes, the widest first."""


class GpusWords(ScenarioModel):
    """The GPUs of a node."""

    model: Name
    """Such as H100-80GB."""
    count: Annotated[int, Field(ge=1, le=64)] = 1
    memory: MemoryMib | None = None
    """Memory of each; known for common models."""
    mig: bool = False
    """Are they cut into MIG instances?"""
    unhealthy: list[Annotated[int, Field(ge=0, le=63)]] = []
    """Indexes of GPUs that are broken."""


class TaintWords(ScenarioModel):
    """A node's refusal of tasks that do not tolerate it."""

    key: Name
    value: str = ""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] = "NoSchedule"


class NodeWords(ScenarioModel):
    """A machine, or `count` equal ones."""

    name: Name
    count: Annotated[int, Field(ge=1, le=20_000)] | None = None
    """So many, named NAME-0, NAME-1 and so on."""
    cpu: Cpus = 0
    memory: MemoryMib = 0
    pods: Annotated[int, Field(ge=0, le=100_000)] = 110
    """How many tasks it takes."""
    gpus: GpusWords | None = None
    extra: dict[str, Annotated[int, Field(ge=0)]] = {}
    """Other resources by name."""
    labels: dict[str, str] = {}
    every: dict[str, Count] = {}
    """Labels that change every so many nodes: {rack: 2} gives rack-0 to two nodes, then rack-1;
    the numbers go on through the whole file."""
    taints: list[TaintWords] = []
    cordoned: bool = False
    """Takes no new tasks."""


class QueueWords(ScenarioModel):
    """A team, department or project."""

    name: Name
    parent: Name | None = None
    """The queue above it; none: a top queue."""
    guarantee: Amounts = {}
    """What it can always have."""
    limit: Amounts = {}
    """What it never exceeds."""
    lend: Amounts = {}
    """How much of its idle guarantee others may use; all, if not given."""
    weight: Annotated[int, Field(ge=0, le=1_000_000)] = 1
    """Its part of the surplus among its siblings."""
    tier: Annotated[int, Field(ge=-1000, le=1000)] = 0
    """Higher tiers take surplus before lower ones see any."""
    min_run: Seconds | None = None
    """Its jobs are not displaced before they have run so long; as the queue above says, if not
    given."""


class DomainWords(ScenarioModel):
    """A wish for closeness."""

    topology: Name | None = None
    """Need not be named if there is only one."""
    level: Name
    """All tasks inside one domain of this level."""
    required: bool = True
    """False: as close as possible, but rather apart than waiting."""


class MigWords(ScenarioModel):
    """MIG instances for each task."""

    profile: Name
    """Such as 3g.40gb."""
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
    """All must hold."""


class TolerationWords(ScenarioModel):
    """Acceptance of taints: without a key of all, without a value of any value."""

    key: Name | None = None
    value: str | None = None
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None


class NeighbourWords(ScenarioModel):
    """Tasks to be near to or apart from; without `job` and `labels`, those of this job itself."""

    job: Name | None = None
    labels: dict[str, str] = {}
    over: Name = HOSTNAME
    """The node label whose domains count; the node itself, if not given."""
    weight: Annotated[int, Field(ge=1, le=100)] | None = None
    """Given: a wish of this weight, not a must."""


class SpreadWords(ScenarioModel):
    """Keep tasks even over domains; without `job` and `labels`, those of this job itself."""

    over: Name = HOSTNAME
    """The node label whose domains count; the node itself, if not given."""
    max_skew: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """No domain has more tasks than this above the emptiest."""
    job: Name | None = None
    labels: dict[str, str] = {}
    required: bool = True


class AskWords(ScenarioModel):
    """What each task needs and where it may run."""

    gpus: Gpus | None = None
    """Whole GPUs for each task, or a fraction of one."""
    gpu_memory: MemoryMib | None = None
    """So much memory of a GPU, whichever it is."""
    mig: MigWords | None = None
    devices: Annotated[int, Field(ge=1, le=64)] | None = None
    """With a fraction or gpu_memory: of each of so many GPUs; 1, if not given."""
    models: list[Name] = []
    """GPU models that will do; any, if not given."""
    cpu: Cpus = 0
    memory: MemoryMib = 0
    extra: dict[str, Annotated[int, Field(ge=0)]] = {}
    selector: dict[str, str] = {}
    """Labels a node must have."""
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
    """A part of a job with its own tasks; what it does not say, it takes from the job."""

    name: Name
    tasks: Count = 1
    minimum: Annotated[int, Field(ge=0)] | None = None
    """So many start with the job, the others when there is room; all, if not given."""
    domain: DomainWords | None = None
    """Its tasks close together."""


class JobWords(AskWords):
    """A job: tasks that start together or not at all."""

    name: Name
    queue: Name
    at: Seconds = 0
    """When it is submitted."""
    count: Annotated[int, Field(ge=1, le=100_000)] | None = None
    """So many equal jobs, named NAME-0, NAME-1 and so on."""
    tasks: Count | None = None
    """How many tasks; 1, if not given."""
    minimum: Annotated[int, Field(ge=1)] | None = None
    """So many start together, the others when there is room; all, if not given."""
    groups: list[GroupWords] = []
    """Instead of `tasks`: parts that differ."""
    domain: DomainWords | None = None
    """All its tasks close together."""
    user: str = ""
    namespace: Name = "default"
    priority: Annotated[int, Field(ge=-(2**31) + 1, le=2**31 - 1)] = 0
    preemptible: bool = True
    """False: it must stay within its queue's guarantee, and is then never stopped."""
    runs: Annotated[Seconds, Field(ge=1)] | None = None
    """How long its tasks run; not given: until it is deleted. The scheduler does not see this."""
    expected: Seconds | None = None
    """How long the scheduler is told that it runs."""
    fails_after: Annotated[Seconds, Field(ge=1)] | None = None
    """Its first task fails once, this long after it started, and is replaced."""
    deleted_at: Seconds | None = None
    """Its user deletes it then."""
    displaces_after: SecondsOrNever = 0
    """How long it waits for free room before others are displaced for it."""
    stale_after: SecondsOrNever | None = None
    """How long it may run below its minimum; as the settings say, if not given."""
    saves_every: Annotated[Seconds, Field(ge=1)] | None = None
    """It saves its work this often, and goes on from there; not given: it starts over."""
    saves_within: Annotated[Seconds, Field(ge=1)] | None = None
    """It can be asked to save before it is evicted, and may take so long; not given: it cannot."""
    saving: SecondsOrNever | None = None
    """How long it really takes when asked; all that it may, if not given; or it `never` answers."""
    max_run: Annotated[Seconds, Field(ge=1)] | None = None
    """How long it may run at a stretch; then it saves, if it can, and stops."""
    overrun: Annotated[Overrun, Field(strict=False)] | None = None
    """What becomes of it then: `end`, if not given, or `requeue`."""
    hurry: Annotated[Seconds, Field(ge=1)] | None = None
    """Whoever makes room for it gets at most so long to save."""
    terminates: Annotated[SecondsOrNever, default("10s")] = 10
    """How long its tasks keep their devices once evicted; `never`, as stuck ones do."""


class EventWords(ScenarioModel):
    """Something that happens; exactly one of the words besides `at`."""

    at: Seconds
    node_gone: Name | None = None
    """A node fails; what ran on it is lost."""
    node_back: Name | None = None
    """It returns, or is well again."""
    node_silent: Name | None = None
    """It does not answer any more; what runs there stands still."""
    node_leaves: Name | None = None
    """It is about to go, as a spot machine does after its notice."""
    node_breaks: Name | None = None
    """Whatever works there from now on fails after half a minute."""
    node_mended: Name | None = None
    """It does not any more."""
    cordon: Name | None = None
    """It takes no new tasks."""
    uncordon: Name | None = None
    """It takes tasks again."""
    delete: Name | None = None
    """A user deletes a job."""


def names_of(entry: NodeWords | JobWords) -> list[str]:
    """The names an entry stands for: its own, or numbered ones if it has a count."""
    if entry.count is None:
        return [entry.name]
    return [f"{entry.name}-{number}" for number in range(entry.count)]
