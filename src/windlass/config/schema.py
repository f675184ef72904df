"""The keys of the configuration, their kinds of values and their defaults."""

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
"""The key with too much in it for a flag or a variable."""

Seconds: TypeAlias = Annotated[int, Field(ge=1, le=86_400)]


class LeaseSettings(ConfigSection):
    """Leadership; the names are those of kube-scheduler."""

    name: Text = "windlass"
    """The Lease by which one of several replicas leads."""
    namespace: Text = "kube-system"
    """Where the Lease lies."""
    duration_s: Seconds = 15
    """Another replica takes over when the Lease was not renewed for so long."""
    renew_deadline_s: Seconds = 10
    """A leader that could not renew for so long writes nothing more."""
    retry_s: Seconds = 2
    """How often a Lease is renewed, or asked for."""

    @model_validator(mode="after")
    def _in_order(self) -> LeaseSettings:
        if not self.retry_s < self.renew_deadline_s < self.duration_s:
            found = f"{self.retry_s}, {self.renew_deadline_s} and {self.duration_s}"
            names = "retry_s, renew_deadline_s and duration_s"
            raise ValueError(f"{names} are {found}; each must be above the one before it")
        return self


class WriteSettings(ConfigSection):
    """How hard the API server is pressed."""

    concurrency: Annotated[int, Field(ge=1, le=1024)] = 16
    """So many writes are in flight at most."""
    per_second: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    """So many writes begin in a second at most; 0: as many as there are."""


class CycleSettings(ConfigSection):
    """How often decisions are made."""

    at_least_ms: Annotated[int, Field(ge=0, le=60_000)] = 20
    """Changes are gathered for so long before they are decided on."""
    at_most_s: Seconds = 5
    """A decision is made at least so often, even if nothing has changed."""
    stuck_after_s: Annotated[int, Field(ge=0, le=86_400)] = 60
    """A leader whose decision takes longer gives its Lease up, and ends or stands by; 0: never."""


class DashboardSettings(ConfigSection):
    """What people see in a browser."""

    enabled: bool = True
    """Serve the dashboard: to those whom the API server knows, and what they may list."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 8321
    """The dashboard is served here; 0: any free port."""
    audiences: list[Text] = Field(default=[], max_length=16)
    """For whom tokens must be meant with which people sign in; empty: for the API server."""


class DcgmSettings(ConfigSection):
    """What is read of the DCGM exporters that run on the nodes."""

    enabled: bool = True
    """Ask the DCGM exporters of the nodes which GPUs are broken and how busy they are."""
    every_s: Seconds = 30
    """How often each of them is asked."""
    namespaces: list[Text] = Field(default=[], max_length=16)
    """Where exporters are believed; empty: in all namespaces for which there is no queue."""


class LogSettings(ConfigSection):
    """What is logged, on stderr."""

    format: Literal["json", "text"] = "json"
    """One JSON object per line, or text for people."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """The least that is told."""


class HistorySettings(ConfigSection):
    """The record of what was decided."""

    url: str = Field(default="", max_length=2048, repr=False)
    """Where cycles are recorded: sqlite:///FILE or postgresql://...; empty: nowhere."""
    keep_mib: Annotated[int, Field(ge=1, le=1_000_000)] = 256
    """So much is kept; beyond it the oldest goes."""
    keep_hours: Annotated[int, Field(ge=1, le=100_000)] = 168
    """So long it is kept."""


class Config(ConfigSection):
    """All that a daemon is told from outside."""

    scheduler_names: list[Text] = Field(default=["windlass"], min_length=1, max_length=16)
    """The schedulerName of pods that it answers to."""
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
    """Decide and report, but write nothing."""
    shadow_of: list[Text] = Field(default=[], max_length=16)
    """In shadow mode, the schedulerName of the pods that another scheduler places."""
    replica: str = ""
    """What this replica calls itself in the Lease; empty: the name of its host."""
    address: str = ""
    """Where all is served; empty: every address in a pod, and this machine alone elsewhere."""
    port: Annotated[int, Field(ge=0, le=65_535)] = 10259
    """Health, readiness and metrics are served here; 0: any free port."""
    evictions_per_queue_per_minute: Annotated[int, Field(ge=0, le=1_000_000)] = 600
    """So many pods of one queue are evicted in a minute at most; 0: none."""
    insist_after_s: Seconds = 300
    """A guarantee or a priority overrules a disruption budget that has said no for so long."""
    snapshot_folder: str = ""
    """Where SIGUSR1 writes a snapshot for a bug report; empty: the working folder."""
    kinds: list[OwnKind] = Field(default=[], max_length=64)
    """Job kinds of your own; in the file only."""
    lease: LeaseSettings = LeaseSettings()
    writes: WriteSettings = WriteSettings()
    cycle: CycleSettings = CycleSettings()
    dashboard: DashboardSettings = DashboardSettings()
    dcgm: DcgmSettings = DcgmSettings()
    log: LogSettings = LogSettings()
    history: HistorySettings = HistorySettings()

    @property
    def listens_on(self) -> str:
        """The address to serve at: a pod has one of its own, a machine may face anybody."""
        is_pod = bool(os.environ.get("KUBERNETES_SERVICE_HOST"))
        return self.address or ("0.0.0.0" if is_pod else "127.0.0.1")


@dataclass(frozen=True, slots=True)
class Option:
    """One key (lease.duration_s), for flags and for the documentation."""

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
    """Every key that a flag or a variable can give, in the order of the documentation."""
    for name, field in section.model_fields.items():
        if name == KINDS:
            continue
        if isinstance(field.default, ConfigSection):
            yield from options(type(field.default), f"{name}.")
        else:
            yield Option(above + name, field.default, " ".join((field.description or "").split()))
