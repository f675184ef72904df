"""Generated clusters and work, from a seed.

Belongs here: a day or week of four teams (`week`, with its numbers in `job_mix` and its nodes and
queues in `cluster`), and clusters for benchmarks (`backlog`, `contended`). The same seed gives the
same work. Does not belong here: playing it (`sim/run.py`). Pure.
"""

from windlass.sim.generate import contended
from windlass.sim.generate.backlog import OPEN, Load, load, many, single, whole_nodes
from windlass.sim.generate.contended import ContendedCluster, passer
from windlass.sim.generate.job_mix import SAVES_WITHIN_S, URGENT, JobMix
from windlass.sim.generate.week import EXAMPLE_SEED, generate

__all__ = [
    "EXAMPLE_SEED",
    "OPEN",
    "SAVES_WITHIN_S",
    "URGENT",
    "ContendedCluster",
    "JobMix",
    "Load",
    "contended",
    "generate",
    "load",
    "many",
    "passer",
    "single",
    "whole_nodes",
]
