"""The status of a queue, from the numbers of the model.

The models of a status read what is written (8 is eight GPUs). Numbers of the model are thousandths
and MiB; so they go through here, and not into the models' constructors.
"""

from __future__ import annotations

from collections.abc import Sequence

from windlass.controllers.queue_status import QueueNumbers
from windlass.crds.amounts import amounts_of
from windlass.crds.base import StatusCondition
from windlass.crds.ledger import LedgerEntry, write_ledger
from windlass.crds.queue import QueueStatus, QueueUsage, WaitingWork

HOUR_S = 3600


def queue_status(
    numbers: QueueNumbers, now: int, generation: int, conditions: Sequence[StatusCondition]
) -> QueueStatus:
    """What is written into the status of a Queue object."""
    return QueueStatus(
        observed_generation=generation,
        conditions=list(conditions),
        share=amounts_of(numbers.share),
        guarantee=amounts_of(numbers.guarantee),
        allocated=amounts_of(numbers.allocated),
        borrowed=amounts_of(numbers.borrowed),
        lent=amounts_of(numbers.lent),
        waiting=WaitingWork.model_construct(
            gangs=numbers.waiting_gangs, tasks=numbers.waiting_tasks, gpu=numbers.waiting_milli
        ),
        usage=QueueUsage.model_construct(gpu_hours=numbers.milli_seconds // HOUR_S),
        ledger=write_ledger((LedgerEntry(*each) for each in numbers.used), now),
    )
