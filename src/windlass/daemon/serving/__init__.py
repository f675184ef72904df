"""The services of the daemon beside its event loop: ports, dashboard, forecasts and history.

    context          the objects that all terms of a daemon share
    health           the port for health, readiness, metrics and the shadow report
    dashboard        the dashboard of a live cluster, on a port of its own
    dashboard_feed   brings the state of the cluster into the dashboard, only while it is viewed
    standby_proxy    forwards viewers of a standby replica to the leader
    replay_reader    reads recorded cycles for the dashboard
    recorder         records the decisions of a term in the history
    forecaster       estimates the start of waiting gangs, in a small part of one core
    leader_info      reads the leader and its settings from the lease
    webhook          `windlass webhook`: the admission webhook with its certificates
    log              structured log lines

This package does I/O. Nothing here may delay or stop scheduling: failures become log lines, and
work for viewers is limited in time. Decisions about gangs do not belong here.
"""

from windlass.daemon.serving.context import DaemonContext, check_rules, scope_of
from windlass.daemon.serving.dashboard import DashboardServer
from windlass.daemon.serving.forecaster import Forecaster
from windlass.daemon.serving.health import application, listen, server
from windlass.daemon.serving.leader_info import (
    DASHBOARD,
    SETTINGS,
    as_leader,
    is_paused,
    leader_of,
    lease_path,
    public_key_of,
    published,
    read_lease,
    seal_of,
)
from windlass.daemon.serving.log import StructuredLog
from windlass.daemon.serving.recorder import TermRecorder, check
from windlass.daemon.serving.replay_reader import ReplayReader
from windlass.daemon.serving.webhook import WebhookAddress, run

__all__ = [
    "DASHBOARD",
    "SETTINGS",
    "DaemonContext",
    "DashboardServer",
    "Forecaster",
    "ReplayReader",
    "StructuredLog",
    "TermRecorder",
    "WebhookAddress",
    "application",
    "as_leader",
    "check",
    "check_rules",
    "is_paused",
    "leader_of",
    "lease_path",
    "listen",
    "public_key_of",
    "published",
    "read_lease",
    "run",
    "scope_of",
    "seal_of",
    "server",
]
