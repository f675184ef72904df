"""A check that the engine chooses the same nodes as plain arithmetic.

The oracle loops over everything and keeps nothing; it is slow, so the cluster is small.
"""

from __future__ import annotations

from dataclasses import replace

from windlass.engine.cycle import plan
from windlass.model.jobs import TaskState
from windlass.sim.generate import Load, load
from windlass.state.cluster import Cluster
from windlass_lab.oracle import score

NODES, PODS = 30, 60


def agrees(shapes: int, seed: int) -> bool:
    """Return whether every single pod of a small load is bound to the node that the oracle would
    choose."""
    world = load(Load(NODES, PODS, min(shapes, PODS), seed=seed))
    # limits per model narrow a request, which the oracle does not know
    world = replace(world, queues=tuple(replace(queue, limit={}) for queue in world.queues))
    needed = {gang.id: gang.needed() for gang in world.gangs}
    cluster = Cluster.of(world)
    found = plan(cluster)
    world = replace(world, arrived=cluster.mix.arrived())
    for bind in found.binds:
        task = next(each for each in world.tasks if each.id == bind.task)
        if needed[task.gang] == 1:
            best = score.best(world, task, world.settings)
            if best is None or best.name != bind.node:
                return False
        bound = replace(task, state=TaskState.BOUND, node=bind.node, devices=bind.devices)
        world = replace(world, tasks=tuple(bound if each is task else each for each in world.tasks))
    return True
