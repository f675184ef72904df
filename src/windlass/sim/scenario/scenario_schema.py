"""A scenario file as a whole: its parts, and what is expected to come of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Discriminator, Field, Tag

from windlass.model.reasons import ReasonCode
from windlass.sim.scenario.amounts import Gpus, Name, Seconds, SecondsOrRest
from windlass.sim.scenario.schema import (
    EventWords,
    JobWords,
    NodeWords,
    QueueWords,
    ScenarioModel,
    SettingsWords,
    TopologyWords,
    default,
)


class JobExpectation(ScenarioModel):
    """What should be true of a job; of every copy, if it has a count."""

    job: Name
    at: Annotated[SecondsOrRest, default("rest")] = None
    """When; at rest, if not given."""
    copies: Annotated[int, Field(ge=0)] | None = None
    """Exactly so many copies are in this state for this reason, instead of all."""
    state: (
        Literal["absent", "waiting", "never", "running", "finished", "deleted", "overran"] | None
    ) = None
    """`never`: it waits and can never start; `absent`: not yet submitted; `overran`: ended at its
    longest run."""
    reason: Annotated[ReasonCode, Field(strict=False)] | None = None
    """One of the reasons why it waits."""
    tasks: Annotated[int, Field(ge=0)] | None = None
    """Tasks that are bound or run, of all copies together."""
    node: Name | None = None
    """All of those are on this node."""
    nodes: Annotated[int, Field(ge=0)] | None = None
    """They are on so many different nodes."""
    devices: Annotated[int, Field(ge=0)] | None = None
    """They are on so many different GPUs."""
    model: Name | None = None
    """All their GPUs are of this model."""
    within: Name | None = None
    """They are all in one domain of this level (a node label)."""
    started_at: Seconds | None = None
    started_before: Name | None = None
    """It started before this job did."""
    finished_at: Seconds | None = None
    waited_at_most: Seconds | None = None
    """From being submitted to its start, or until now."""
    waited_at_least: Seconds | None = None
    restarts: Annotated[int, Field(ge=0)] | None = None
    """So many of its tasks were lost and replaced."""
    evicted: Annotated[int, Field(ge=0)] | None = None
    """So many of its tasks were evicted, with no other place kept for them."""
    moved: Annotated[int, Field(ge=0)] | None = None
    """So many of its tasks were evicted to another place that was kept for them."""
    displaced_by: Name | None = None
    """This job is one of those it made room for, by either."""


class QueueExpectation(ScenarioModel):
    """What should be true of a queue and all below it."""

    queue: Name
    at: Annotated[SecondsOrRest, default("rest")] = None
    """When; at rest, if not given."""
    model: Name | None = None
    """Count GPUs of this model only."""
    gpus: Gpus | None = None
    """It has exactly so many GPUs."""
    gpus_at_most: Gpus | None = None
    gpus_at_least: Gpus | None = None
    share: Gpus | None = None
    """It should have so many GPUs now."""
    running: Annotated[int, Field(ge=0)] | None = None
    """So many of its jobs run."""
    waiting: Annotated[int, Field(ge=0)] | None = None
    """So many of its jobs wait."""


class NodeExpectation(ScenarioModel):
    """What should be true of a node."""

    node: Name
    at: Annotated[SecondsOrRest, default("rest")] = None
    """When; at rest, if not given."""
    gpus: Gpus | None = None
    """So many of its GPUs are in use."""
    tasks: Annotated[int, Field(ge=0)] | None = None
    """So many tasks are on it."""


def _kind(value: object) -> str | None:
    """Which kind of expectation is meant: the first word that names a thing decides."""
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
    """A cluster, what happens to it, and what should come of it."""

    name: Name
    about: str = ""
    """What it teaches."""
    settings: SettingsWords = SettingsWords()
    topologies: list[TopologyWords] = Field(default_factory=list[TopologyWords])
    nodes: Annotated[list[NodeWords], Field(min_length=1)]
    queues: Annotated[list[QueueWords], Field(min_length=1)]
    jobs: list[JobWords] = Field(default_factory=list[JobWords])
    events: list[EventWords] = Field(default_factory=list[EventWords])
    expect: list[ExpectWords] = Field(default_factory=list[ExpectWords])
    until: Seconds | None = None
    """Stop here; not given: when nothing happens any more."""
