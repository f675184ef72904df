"""The table of checks, in the order in which their findings are printed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from windlass.doctor import cluster_checks, gpu_checks, windlass_checks
from windlass.doctor.evidence import Check, DoctorFinding, Evidence


@dataclass(frozen=True, slots=True)
class CheckRow:
    """A check, and the parts of the evidence that it needs."""

    check: Check
    needs: tuple[str, ...] = ()


CHECKS: dict[str, CheckRow] = {
    "API server": CheckRow(cluster_checks.server, ("version",)),
    "definitions": CheckRow(windlass_checks.definitions, ("definitions",)),
    "rights": CheckRow(windlass_checks.rights, ("rights",)),
    "version": CheckRow(windlass_checks.version, ("deployments",)),
    "scheduler": CheckRow(windlass_checks.leader, ("leader",)),
    "queues": CheckRow(windlass_checks.queues, ("queues",)),
    "pods": CheckRow(windlass_checks.pods, ("pods",)),
    "GPUs": CheckRow(gpu_checks.nodes, ("nodes",)),
    "GPU Operator": CheckRow(gpu_checks.operator, ("policies",)),
    "driver": CheckRow(gpu_checks.drivers, ("nodes",)),
    "device plug-in": CheckRow(gpu_checks.device_plugin, ("daemons", "nodes")),
    "feature discovery": CheckRow(gpu_checks.discovery, ("nodes",)),
    "DCGM exporter": CheckRow(gpu_checks.metrics, ("daemons", "nodes")),
    "MIG": CheckRow(gpu_checks.mig, ("daemons", "nodes")),
    "autoscaler": CheckRow(cluster_checks.autoscaler, ("deployments",)),
    "doctor": CheckRow(cluster_checks.hidden),
}


def examine(evidence: Evidence) -> Iterator[tuple[str, DoctorFinding]]:
    """Yield every finding with the name of its check; skip checks whose evidence is hidden."""
    for name, row in CHECKS.items():
        if evidence.hidden.keys().isdisjoint(row.needs):
            for finding in row.check(evidence):
                yield name, finding
