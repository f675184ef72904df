"""When a waiting gang is expected to start, for commands that explain one cluster."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from windlass.model.reasons import ReasonCode

if TYPE_CHECKING:
    from windlass.cli.explain.context import ExplainContext
    from windlass.daemon.loop.read_cluster import Sight
    from windlass.forecast.eta import StartEta
    from windlass.forecast.experience import Experience
    from windlass.model.jobs import GangId
    from windlass.state.cluster import Cluster

LONGEST_S = 15.0
"""Nobody waits longer for a command; then what is known by then is told."""

STUCK = frozenset(
    {
        ReasonCode.UNREADABLE,
        ReasonCode.LEFT_OUT,
        ReasonCode.OWNER_SUSPENDED,
        ReasonCode.NO_QUEUE,
        ReasonCode.UNKNOWN_QUEUE,
        ReasonCode.INCOMPLETE,
    }
)
"""Who waits for one of these waits for people, and no forecast knows what they do."""


def etas_of(cluster: Cluster, experience: Experience | None = None) -> dict[GangId, StartEta]:
    """The ETAs of all that wait, as far as they are found in time."""
    from windlass.forecast.eta import LEAST_RUNS, Forecast
    from windlass.forecast.experience import Experience

    forecast = Forecast(cluster.snapshot(), experience or Experience())
    began = time.monotonic()
    for _ in forecast.steps():
        if time.monotonic() - began > LONGEST_S:
            break
    return forecast.etas() if len(forecast.starts) >= LEAST_RUNS else {}


def told_on(sight: Sight) -> dict[str, str]:
    """What pods were told of it: the leader has seen more of the past than whoever asks."""
    from windlass.forecast.text import found_in
    from windlass.workloads.objects.wire import condition

    told: dict[str, str] = {}
    for task in sight.cluster.tasks.values():
        said = condition(sight.pods[task.id], "PodScheduled") if task.id in sight.pods else None
        if (
            said is not None
            and said.status == "False"
            and (found := found_in(said.message or "", sight.cluster.now))
        ):
            told[task.gang] = found
    return told


def is_stuck(story: dict[str, Any]) -> bool:
    """Must somebody change something before it can start at all?"""
    return any(each["why"] in STUCK for each in story["reasons"])


def add_etas(scene: ExplainContext, stories: list[dict[str, Any]]) -> None:
    """Say in the stories of those that wait when they are expected to start."""
    from windlass.forecast.text import eta_sentence
    from windlass.model.jobs import GangId

    waits = [story for story in stories if story["state"] == "Waits"]
    for story in waits:
        story["eta"] = None
    waiting = [story for story in waits if not is_stuck(story)]
    if scene.expected is not None:
        for story in waiting:
            sentence = scene.expected.get(story["gang"])
            story["eta"] = {"sentence": sentence} if sentence else None
        return
    etas = etas_of(scene.after, scene.past) if waiting else {}
    for story in waiting:
        eta = etas.get(GangId(story["gang"]))
        if eta is not None:
            story["eta"] = asdict(eta) | {"sentence": eta_sentence(eta, scene.cluster.now)}
