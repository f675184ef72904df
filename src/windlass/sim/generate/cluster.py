"""The generated cluster: nodes of three GPU models in racks and blocks, queues of four teams.

lab       language  trains large models     two thirds of the cluster are H100, an eighth is
          vision    trains and sweeps       L40S, the rest A100, of 24 nodes one cut by MIG;
product   ranking   trains and sweeps       a rack is four nodes, a block four racks
          serving   inference
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.model.constraints import HOSTNAME
from windlass.model.gpus import WHOLE, Gpu
from windlass.model.nodes import Node, Topology
from windlass.model.queues import GPU, Queue

H100 = Gpu("H100-80GB", 80 * 1024)
A100 = Gpu("A100-80GB", 80 * 1024)
A100_MIG = Gpu("A100-80GB", 80 * 1024, mig=True)
L40S = Gpu("L40S-48GB", 48 * 1024)

BLOCK = "topology.windlass.dev/block"
RACK = "topology.windlass.dev/rack"
NETWORK = Topology("network", (BLOCK, RACK, HOSTNAME))

GPUS_PER_NODE = 8
NODES_PER_RACK = 4
RACKS_PER_BLOCK = 4
NODES_PER_MIG_NODE = 24

GUARANTEES = {"language": 40, "vision": 20, "ranking": 15, "serving": 25}
"""Percent of the cluster."""


def build_nodes(count: int) -> tuple[Node, ...]:
    """Return this many nodes; each model starts a block of its own."""
    h100, l40s = -(-count * 2 // 3), count // 8
    a100 = count - h100 - l40s
    mig = max(count // NODES_PER_MIG_NODE, 1 if a100 >= 2 else 0)
    letters = _letters()
    return (
        *_of_model(H100, h100, letters),
        *_of_model(A100, a100 - mig, letters, [A100_MIG] * mig),
        *_of_model(L40S, l40s, letters),
    )


def build_queues(gpus: int) -> tuple[Queue, ...]:
    """Return the queues of the four teams; all idle guarantee is lent."""
    milli = {team: gpus * WHOLE * part // 100 for team, part in GUARANTEES.items()}
    parents = {"language": "lab", "vision": "lab", "ranking": "product", "serving": "product"}
    teams = tuple(Queue(name, parents[name], {GPU: milli[name]}) for name in GUARANTEES)
    tops = tuple(
        Queue(top, guarantee={GPU: sum(milli[t] for t in parents if parents[t] == top)})
        for top in ("lab", "product")
    )
    return (*tops, *teams)


def _of_model(
    gpu: Gpu, count: int, letters: Iterator[str], last: list[Gpu] | None = None
) -> Iterator[Node]:
    """Yield the nodes of one model, followed by those of `last`."""
    letter = ""
    for index, card in enumerate([gpu] * count + (last or [])):
        number = index // NODES_PER_RACK % RACKS_PER_BLOCK
        if index % (NODES_PER_RACK * RACKS_PER_BLOCK) == 0:
            letter = next(letters)
        rack = f"{letter}{number + 1}"
        yield _node(f"{rack}-n{index % NODES_PER_RACK + 1}", card, letter, rack)


def _node(name: str, gpu: Gpu, block: str, rack: str) -> Node:
    return Node(
        name,
        cpu_milli=112_000,
        memory_mib=1_440 * 1024,
        gpus=(gpu,) * GPUS_PER_NODE,
        labels={HOSTNAME: name, BLOCK: block, RACK: rack, "windlass.dev/gpu-model": gpu.model},
    )


def _letters() -> Iterator[str]:
    alphabet = "abcdefghijklmnopqrstuvwxyz"
    yield from alphabet
    for first in alphabet:
        for second in alphabet:
            yield first + second
