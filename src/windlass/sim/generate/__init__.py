"""Generated clusters and work, from a seed.

Belongs here: a day or week of four teams (`week`, with its numbers in `job_mix` and its nodes and
queues in `cluster`), and clusters for benchmarks (`backlog`, `contended`). The same seed gives the
same work. Does not belong here: playing it (`sim/run.py`). Pure.
"""
