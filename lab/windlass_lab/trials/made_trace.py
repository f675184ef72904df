"""A synthetic trace of the shape of openb: few models, many fractions of few sizes, some large
pods."""

from __future__ import annotations

from random import Random

from windlass.model.gpus import Gpu, GpuRequest
from windlass.model.nodes import Node
from windlass.model.resources import Request
from windlass.sim.traces import MEMORY_MIB, PODS, TracePod

MACHINES = (("G2", 8, 96_000, 393_216), ("T4", 2, 104_000, 524_288), ("P100", 2, 16_000, 122_880))
"""The models with the GPUs, CPU and memory of their nodes."""
SHARES = (1000, 1000, 1000, 810, 470, 320, 650, 230)
DAY = 86_400


def made_nodes(count: int) -> list[Node]:
    """Return this many nodes, of each kind in turn."""
    return [_node(at, *MACHINES[at % len(MACHINES)]) for at in range(count)]


def made_pods(count: int, seed: int) -> list[TracePod]:
    """Return this many pods that arrive within a day, and leave."""
    random = Random(seed)
    return [_pod(random, at) for at in range(count)]


def _node(at: int, model: str, gpus: int, cpu: int, memory: int) -> Node:
    return Node(f"made-{at:04}", cpu, memory, pods=PODS, gpus=(Gpu(model, MEMORY_MIB),) * gpus)


def _pod(random: Random, at: int) -> TracePod:
    came = random.randrange(DAY)
    went = came + random.randrange(600, DAY)
    cpu, memory = random.choice((4_000, 6_000, 8_000, 12_000)), random.choice((8_192, 24_576))
    draw = random.random()
    if draw < 0.13:
        gpu = None
    elif draw < 0.16:
        gpu = GpuRequest(random.choice((2, 4, 8)))
    else:
        models = ("T4",) if random.random() < 0.1 else ()
        gpu = GpuRequest(1, random.choice(SHARES), models=models)
    return TracePod(f"made-pod-{at:05}", Request(cpu, memory, gpu), came, went)
