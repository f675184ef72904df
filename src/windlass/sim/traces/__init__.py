"""Traces: public and own files of nodes, pods and jobs, and their replay.

Belongs here: readers of formats (`formats`, `rows`, `openb`), the workload of a trace (`replay`),
its outcome and its samples over time. Does not belong here: playing it (`sim/run.py`). It reads
lines, never files.
"""
