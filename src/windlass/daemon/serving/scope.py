"""What a configuration makes a daemon responsible for; commands that only look ask it too."""

from __future__ import annotations

from windlass.config import Config
from windlass.config.job_kinds import kinds_of
from windlass.kube.ingest.scope import Scope
from windlass.workloads.objects.signed_marks import NO_SEAL, Seal


def scope_of(config: Config, seal: Seal = NO_SEAL) -> Scope:
    """Return the scope of a daemon with this configuration; `seal` verifies its marks."""
    shadowed = config.shadow_of if config.shadow else []
    return Scope(
        frozenset([*config.scheduler_names, *shadowed]),
        frozenset(config.namespaces),
        config.node_selector,
        config.default_queue,
        kinds_of(config.kinds),
        seal,
    )
