"""The status of a queue, from the numbers of the model.

The models of a status read what is written (8 is eight GPUs). Numbers of the model are thousandths
and MiB; so they go through here, and not into the models' constructors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.crds.amounts import amounts_of
from windlass.crds.ledger import Used, write_ledger
from windlass.crds.queue import QueueStatus, Usage, Waiting
from windlass.crds.words import Condition

HOUR_S = 3600


def _nothing() -> dict[str, int]:
    return {}


@dataclass(frozen=True, slots=True)
class QueueNumbers:
    """A queue and those below it, in the units of the model; amounts per dimension."""

    share: Mapping[str, int] = field(default_factory=_nothing)
    guarantee: Mapping[str, int] = field(default_factory=_nothing)
    allocated: Mapping[str, int] = field(default_factory=_nothing)
    borrowed: Mapping[str, int] = field(default_factory=_nothing)
    lent: Mapping[str, int] = field(default_factory=_nothing)
    waiting_gangs: int = 0
    waiting_tasks: int = 0
    waiting_milli: int = 0
    """Thousandths of GPUs that the waiting tasks ask for."""
    milli_seconds: int = 0
    """Usage."""
    used: Sequence[Used] = ()
    """Usage of its own gangs alone."""


def queue_status(
    numbers: QueueNumbers, now: int, generation: int, conditions: Sequence[Condition]
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
        waiting=Waiting.model_construct(
            gangs=numbers.waiting_gangs, tasks=numbers.waiting_tasks, gpu=numbers.waiting_milli
        ),
        usage=Usage.model_construct(gpu_hours=numbers.milli_seconds // HOUR_S),
        ledger=write_ledger(numbers.used, now),
    )
