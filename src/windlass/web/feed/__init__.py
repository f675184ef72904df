"""The state behind the dashboard: written by the scheduler's thread, read by any.

Taking views, following changes and sending them to viewers belong here; making documents does not
(`documents`), and neither do rights (`auth`, `redact`). Locks and threads, but no other I/O.

    view             the cluster at one moment
    gang_members     the tasks of every gang, updated by what has changed
    requested_gpus   the milli-GPU that waiting tasks request
    timeseries       the past of queues, in bounded memory
    deltas           the encoding of documents, and the deltas between them
    change_signal    wakes the event loops of viewers
    throttle         one piece of work for viewers at a time, with pauses
    replay_source    the interface of the recorded past
"""

from windlass.web.feed.change_signal import ChangeSignal
from windlass.web.feed.deltas import DeltaTrail, as_bytes
from windlass.web.feed.gang_members import GangMemberIndex
from windlass.web.feed.replay_source import MOST_CYCLES, ReplaySource, ReplayUnavailable
from windlass.web.feed.requested_gpus import given_milli, is_waiting
from windlass.web.feed.throttle import WorkThrottle
from windlass.web.feed.timeseries import Timeseries, TimeseriesSample, past_of
from windlass.web.feed.view import (
    ClusterView,
    Hardware,
    ViewExtras,
    bounded_etas,
    changed_tasks,
    take_view,
)

__all__ = [
    "MOST_CYCLES",
    "ChangeSignal",
    "ClusterView",
    "DeltaTrail",
    "GangMemberIndex",
    "Hardware",
    "ReplaySource",
    "ReplayUnavailable",
    "Timeseries",
    "TimeseriesSample",
    "ViewExtras",
    "WorkThrottle",
    "as_bytes",
    "bounded_etas",
    "changed_tasks",
    "given_milli",
    "is_waiting",
    "past_of",
    "take_view",
]
