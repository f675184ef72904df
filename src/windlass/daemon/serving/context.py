"""The objects that all terms of a daemon share, and the scope that a configuration gives it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from random import Random

from windlass.config import Config
from windlass.config.job_kinds import kinds_of
from windlass.controllers.node_checks import NO_CHECKS, CheckOccasion, NodeCheckRules
from windlass.daemon.serving.dashboard_feed import DashboardFeed
from windlass.daemon.serving.log import StructuredLog
from windlass.kube.client import Api, Election
from windlass.kube.ingest import Scope
from windlass.kube.writers import Signing
from windlass.metrics import Metrics
from windlass.workloads.objects import NO_SEAL, Seal


@dataclass(slots=True)
class Clock:
    """A clock of seconds since 1970 that never goes back.

    The wall clock is read once; after that only the monotonic clock counts, so that later jumps of
    the wall clock change nothing.
    """

    began: float = field(default_factory=time.time)
    """The wall clock when this object was made."""
    at: float = field(default_factory=time.monotonic)
    """The monotonic clock at the same moment."""

    def now(self) -> int:
        """Return the current second."""
        return int(self.began + time.monotonic() - self.at)


@dataclass(slots=True)
class DaemonContext:
    """The configuration, connections and services that outlive a term."""

    config: Config
    api: Api
    election: Election
    metrics: Metrics
    log: StructuredLog
    dashboard_feed: DashboardFeed | None = None
    """None if the dashboard is disabled."""
    clock: Clock = field(default_factory=Clock)
    signing: Signing = field(default_factory=Signing)
    chance: Random = field(default_factory=Random)


def check_rules(config: Config) -> NodeCheckRules:
    """Return the rules of node checks; none without a template."""
    settings = config.node_check
    if not settings.template:
        return NO_CHECKS
    occasions = frozenset(map(CheckOccasion, settings.occasions))
    return NodeCheckRules(occasions, settings.retry_s, settings.template.partition("/")[0])


def scope_of(config: Config, seal: Seal = NO_SEAL) -> Scope:
    """Return what a daemon with this configuration is responsible for.

    In shadow mode the pods of the other scheduler belong to it. `seal` verifies marks on owners.
    Commands that only read the cluster use it too, and so see the same gangs.
    """
    shadowed = config.shadow_of if config.shadow else []
    return Scope(
        frozenset([*config.scheduler_names, *shadowed]),
        frozenset(config.namespaces),
        config.node_selector,
        config.default_queue,
        kinds_of(config.kinds),
        seal,
    )
