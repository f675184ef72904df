"""Expected start times of waiting gangs, for commands that explain one cluster."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from windlass.model.reasons import ReasonCode

if TYPE_CHECKING:
    from windlass.cli.explain.context import ExplainContext
    from windlass.daemon.loop import ClusterReading
    from windlass.forecast.eta import StartEta
    from windlass.forecast.experience import Experience
    from windlass.model.jobs import GangId
    from windlass.state.cluster import Cluster

FORECAST_BUDGET_S = 15.0
"""The time that a command spends on a forecast; after it, the runs that are done must do."""

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
"""The reasons that only a person can remove; a gang with one of them is not in any forecast."""


def forecast_etas(cluster: Cluster, experience: Experience | None = None) -> dict[GangId, StartEta]:
    """Return the ETAs of the waiting gangs, as far as the forecast finds them in time.

    The result is empty if the time was too short for the least number of runs.
    """
    from windlass.forecast.eta import LEAST_RUNS, Forecast
    from windlass.forecast.experience import Experience

    forecast = Forecast(cluster.snapshot(), experience or Experience())
    began = time.monotonic()
    for _ in forecast.steps():
        if time.monotonic() - began > FORECAST_BUDGET_S:
            break
    return forecast.etas() if len(forecast.starts) >= LEAST_RUNS else {}


def etas_on_pods(sight: ClusterReading) -> dict[str, str]:
    """Return, by gang, the ETA that the leader wrote into the conditions of its pods.

    The leader has observed the cluster for longer than this command, so its forecast is better.
    """
    from windlass.forecast.text import eta_in_message
    from windlass.workloads.objects import condition

    etas: dict[str, str] = {}
    for task in sight.cluster.tasks.values():
        pod = sight.pods.get(task.id)
        scheduled = None if pod is None else condition(pod, "PodScheduled")
        if scheduled is None or scheduled.status != "False":
            continue
        if eta := eta_in_message(scheduled.message or "", sight.cluster.now):
            etas[task.gang] = eta
    return etas


def is_stuck(story: dict[str, Any]) -> bool:
    """Return whether a person must change something before the gang can start at all."""
    return any(reason["why"] in STUCK for reason in story["reasons"])


def add_etas(context: ExplainContext, stories: list[dict[str, Any]]) -> None:
    """Add the key `eta` to the stories of waiting gangs; its value is None where it is unknown."""
    from windlass.forecast.text import eta_sentence
    from windlass.model.jobs import GangId

    waiting = [story for story in stories if story["state"] == "Waits"]
    for story in waiting:
        story["eta"] = None
    startable = [story for story in waiting if not is_stuck(story)]
    if context.eta_sentences is not None:
        for story in startable:
            clause = context.eta_sentences.get(story["gang"])
            story["eta"] = {"sentence": clause} if clause else None
        return
    etas = forecast_etas(context.after, context.experience) if startable else {}
    for story in startable:
        eta = etas.get(GangId(story["gang"]))
        if eta is not None:
            story["eta"] = asdict(eta) | {"sentence": eta_sentence(eta, context.cluster.now)}
