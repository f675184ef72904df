"""The queues: which gangs a cycle considers, in which order, and what their queues may have.

Belongs here: rules and arithmetic of gangs and queues that need no node. Does not belong here: the
choice of nodes (`nodes`, `placement`) and of victims (`preemption`). No I/O.

    progress             the tasks of a gang that run, must start together, or may join later
    eligibility          the gangs that may start now, and the reasons against the others
    backlog              the gangs that a cycle considers: all, or the heads of equal ones
    shares               the division of the cluster over the tree of queues
    limits               limits, guarantees and lending
    order                the queue order: the next gang, one at a time
    ordering_policies    the order levels of gangs inside a queue, and preemption by order
    runtime_estimate     the expected run time of gangs
"""

from windlass.engine.queueing.backlog import Backlog, equivalent_heads, whole_backlog
from windlass.engine.queueing.eligibility import Refusals, retry_times, suspect_nodes
from windlass.engine.queueing.limits import Lending, Limits, in_units
from windlass.engine.queueing.order import GangOrder
from windlass.engine.queueing.ordering_policies import OrderLevels
from windlass.engine.queueing.progress import (
    Progress,
    ProgressCache,
    TaskBatch,
    batches_of,
    gang_progress,
    natural_order,
)
from windlass.engine.queueing.runtime_estimate import Estimates
from windlass.engine.queueing.shares import QueueShares, apportion, compute_shares

__all__ = [
    "Backlog",
    "Estimates",
    "GangOrder",
    "Lending",
    "Limits",
    "OrderLevels",
    "Progress",
    "ProgressCache",
    "QueueShares",
    "Refusals",
    "TaskBatch",
    "apportion",
    "batches_of",
    "compute_shares",
    "equivalent_heads",
    "gang_progress",
    "in_units",
    "natural_order",
    "retry_times",
    "suspect_nodes",
    "whole_backlog",
]
