"""The table of checks, in the order in which one would look."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.doctor import around, gpus, own
from windlass.doctor.evidence import Check, Evidence, Finding


@dataclass(frozen=True, slots=True)
class Row:
    """A check, and the parts of the evidence without which it would be wrong."""

    check: Check
    needs: tuple[str, ...] = ()


CHECKS: dict[str, Row] = {
    "API server": Row(around.server, ("version",)),
    "definitions": Row(own.definitions, ("definitions",)),
    "rights": Row(own.rights, ("rights",)),
    "version": Row(own.version, ("deployments",)),
    "scheduler": Row(own.leader, ("leader",)),
    "queues": Row(own.queues, ("queues",)),
    "pods": Row(own.pods, ("pods",)),
    "GPUs": Row(gpus.nodes, ("nodes",)),
    "GPU Operator": Row(gpus.operator, ("policies",)),
    "driver": Row(gpus.drivers, ("nodes",)),
    "device plug-in": Row(gpus.device_plugin, ("daemons", "nodes")),
    "feature discovery": Row(gpus.discovery, ("nodes",)),
    "DCGM exporter": Row(gpus.metrics, ("daemons", "nodes")),
    "MIG": Row(gpus.mig, ("daemons", "nodes")),
    "autoscaler": Row(around.autoscaler, ("deployments",)),
    "doctor": Row(around.hidden),
}


def examine(found: Evidence) -> Iterator[tuple[str, Finding]]:
    """Every finding, with the name of its check."""
    for name, row in CHECKS.items():
        if found.hidden.keys().isdisjoint(row.needs):
            for finding in row.check(found):
                yield name, finding
