"""The keys of the configuration, their types, defaults and meanings.

The strings below the keys are shown by `--help` and in `docs/reference/config.md`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, Field, model_validator

from windlass.config.job_kinds import OwnKind
from windlass.config.strict_section import ConfigSection, Text

PREFIX = "WINDLASS_"
KINDS = "kinds"
"""The only key that flags and environment variables cannot set."""

Seconds: TypeAlias = Annotated[int, Field(ge=1, le=86_400)]


class LeaseSettings(ConfigSection):
    """Leader election; the names are those of kube-scheduler."""

    name: Text = "windlass"
    """The name of the Lease that the leader holds."""
    namespace: Text = "kube-system"
    """The namespace of the Lease."""
    duration_s: Seconds = 15
    """Another replica takes over if the Lease was not renewed for this time."""
    renew_deadline_s: Seconds = 10
    """A leader that could not renew the Lease for this time stops writing."""
    retry_s: Seconds = 2
    """The interval at which the Lease is renewed, or tried for."""

    @model_validator(mode="after")
    def _in_order(self) -> LeaseSettings:
        if not self.retry_s < self.renew_deadline_s < self.duration_s:
            values = f"{self.retry_s}, {self.renew_deadline_s} and {self.duration_s}"
            names = "retry_s, renew_deadline_s and duration_s"
            raise ValueError(f"{names} are {values}; each must be above the one before it")
        return self


class WriteSettings(ConfigSection):
    """The limits on writes to the API server."""

    concurrency: Annotated[int, Field(ge=1, le=1024)] = 16
    """The most writes in flight at a time."""
    per_second: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """The most writes that start in a second; 0: no limit."""


class CycleSettings(ConfigSection):
    """The timing of scheduling cycles."""

    at_least_ms: Annotated[int, Field(ge=0, le=60_000)] = 20
    """The time for which changes are collected before a cycle starts."""
    at_most_s: Seconds = 5
    """The longest time between two cycles, even if nothing has changed."""
    stuck_after_s: Annotated[int, Field(ge=0, le=86_400)] = 60
    """A leader whose cycle takes longer gives up its Lease, and ends or stands by; 0: never."""


class DashboardSettings(ConfigSection):
    """The dashboard that people see in a browser."""

    enabled: bool = True
    """Serve the dashboard: to users that the API server authenticates, with what they may list."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8321
    """The port of the dashboard; 0: any free port."""
    audiences: list[Text] = Field(default=[], max_length=16)
    """The audiences of the tokens with which people sign in; empty: that of the API server."""


class DcgmSettings(ConfigSection):
    """The metrics that are read from the DCGM exporters on the nodes."""

    enabled: bool = True
    """Read from the DCGM exporters which GPUs are broken and how busy they are."""
    every_s: Seconds = 30
    """The interval at which each exporter is read."""
    namespaces: list[Text] = Field(default=[], max_length=16)
    """The namespaces whose exporters are trusted; empty: all namespaces without a queue."""


class NodeCheckSettings(ConfigSection):
    """The check of nodes before they take tasks."""

    template: str = Field(default="", max_length=320)
    """The CronJob (NAMESPACE/NAME) from which a check Job is made for a node; empty: no checks."""
    occasions: list[Literal["quarantine", "repair", "new"]] = Field(
        default=["quarantine", "repair"], max_length=3
    )
    """The occasions: a quarantine is over, a node in trouble is well again, a node is new."""
    retry_s: Seconds = 3600
    """The time after which a node whose check failed is checked again."""

    @model_validator(mode="after")
    def _names_a_template(self) -> NodeCheckSettings:
        if self.template and not all(self.template.partition("/")):
            raise ValueError(f'"{self.template}" names no CronJob; write NAMESPACE/NAME')
        return self


class LogSettings(ConfigSection):
    """The log on stderr."""

    format: Literal["json", "text"] = "json"
    """One JSON object per line, or text for people."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The lowest level that is logged."""


class HistorySettings(ConfigSection):
    """The recording of decisions."""

    url: str = Field(default="", max_length=2048, repr=False)
    """The database for recorded cycles: sqlite:///FILE or postgresql://...; empty: none."""
    keep_mib: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """The most that is kept; beyond it the oldest cycles are deleted."""
    keep_hours: Annotated[int, Field(ge=1, le=100_000)] = 168
    """The time after which recorded cycles are deleted."""


class Config(ConfigSection):
    """The whole configuration of a daemon."""

    scheduler_names: list[Text] = Field(default=["windlass"], min_length=1, max_length=16)
    """The schedulerName of the pods that it schedules."""
    kubeconfig: str = ""
    """The kubeconfig file; empty: $KUBECONFIG, the pod's own account, or ~/.kube/config."""
    context: str = ""
    """The context of the kubeconfig; empty: its current one."""
    namespaces: list[Text] = Field(default=[])
    """Only pods of these namespaces are scheduled; empty: all."""
    node_selector: dict[Text, str] = Field(default={})
    """Only nodes with these labels are used; empty: all."""
    default_queue: str = ""
    """The queue of namespaces that no queue names; empty: their pods are refused with a reason."""
    shadow: bool = False
    """Decide and report, but write nothing to the cluster."""
    shadow_of: list[Text] = Field(default=[], max_length=16)
    """In shadow mode, the schedulerName of the pods that another scheduler places."""
    replica: str = ""
    """The name of this replica in the Lease; empty: the host name."""
    address: str = ""
    """The address to serve at; empty: all addresses in a pod, only the local one elsewhere."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 10259
    """The port of health, readiness and metrics; 0: any free port."""
    evictions_per_queue_per_minute: Annotated[int, Field(ge=0, le=1_000_000)] = 600
    """The most pods of one queue that are evicted in a minute; 0: none."""
    insist_after_s: Seconds = 300
    """The time after which a guarantee or a priority overrules a disruption budget."""
    snapshot_folder: str = ""
    """The folder in which SIGUSR1 writes a snapshot for a bug report; empty: the working folder."""
    kinds: list[OwnKind] = Field(default=[], max_length=64)
    """Job kinds of your own; in the file only."""
    lease: LeaseSettings = LeaseSettings()
    writes: WriteSettings = WriteSettings()
    cycle: CycleSettings = CycleSettings()
    dashboard: DashboardSettings = DashboardSettings()
    dcgm: DcgmSettings = DcgmSettings()
    node_check: NodeCheckSettings = NodeCheckSettings()
    log: LogSettings = LogSettings()
    history: HistorySettings = HistorySettings()

    @property
    def listens_on(self) -> str:
        """The address to serve at. Outside of a pod only the local one, as others may reach it."""
        is_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
        return self.address or ("0.0.0.0" if is_pod else "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Option:
    """A key (lease.duration_s) with its flag, its environment variable and its meaning."""

    key: str
    default: Any
    meaning: str

    @property
    def variable(self) -> str:  # in the environment
        return PREFIX + self.key.replace(".", "_").upper()

    @property
    def flag(self) -> str:  # on the command line
        return "--" + self.key.replace(".", "-").replace("_", "-")


def options(section: type[BaseModel] = Config, above: str = "") -> Iterator[Option]:
    """Yield every key that a flag or a variable can set, in the order of the documentation."""
    for name, field in section.model_fields.items():
        if name == KINDS:
            continue
        if isinstance(field.default, ConfigSection):
            yield from options(type(field.default), f"{name}.")
        else:
            yield Option(above + name, field.default, " ".join((field.description or "").split()))
