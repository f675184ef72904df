"""Traces: public and own files of nodes, pods and jobs, and their replay.

Belongs here: readers of formats (`formats`, `rows`, `openb`), the workload of a trace (`replay`),
its outcome and its samples over time. Does not belong here: playing it (`sim/run.py`). It reads
lines, never files.
"""

from windlass.sim.traces.formats import read_all
from windlass.sim.traces.openb import MEMORY_MIB, PODS, TracePod, read_nodes, read_pods
from windlass.sim.traces.outcome import Done, TraceOutcome, done_of, outcome
from windlass.sim.traces.replay import Replay, cluster_of, larger_than, workload_of
from windlass.sim.traces.rows import TraceError, TraceJob, lines_of
from windlass.sim.traces.samples import Samples, TraceSample

__all__ = [
    "MEMORY_MIB",
    "PODS",
    "Done",
    "Replay",
    "Samples",
    "TraceError",
    "TraceJob",
    "TraceOutcome",
    "TracePod",
    "TraceSample",
    "cluster_of",
    "done_of",
    "larger_than",
    "lines_of",
    "outcome",
    "read_all",
    "read_nodes",
    "read_pods",
    "workload_of",
]
