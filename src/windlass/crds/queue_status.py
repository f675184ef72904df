"""The status of a queue as Windlass writes it, and the ledger in it that it reads back.

The pydantic models of a status read what users and the API server write (8 is eight GPUs). The
numbers of the model are thousandths of a GPU and MiB, so they are converted here and must not go
into the constructors of these models. The ledger holds the usage per user and GPU model, so that it
survives a restart of the scheduler.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from pydantic import ValidationError

from windlass.controllers.queue_status import QueueNumbers
from windlass.crds.amounts import amounts_of
from windlass.crds.base import StatusCondition
from windlass.crds.queue import (
    MOST_ENTRIES,
    LedgerWords,
    QueueStatus,
    QueueUsage,
    UsageEntry,
    WaitingWork,
)
from windlass.model import units

HOUR_S = 3600


class LedgerEntry(NamedTuple):
    """The GPU time of one user on one GPU model, in thousandths of a GPU times seconds."""

    user: str
    model: str
    milli_seconds: int


def queue_status(
    numbers: QueueNumbers, now: int, generation: int, conditions: Sequence[StatusCondition]
) -> QueueStatus:
    """Return the status of a Queue object for these numbers of the model."""
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
        ledger=write_ledger((LedgerEntry(*entry) for entry in numbers.used), now),
    )


def write_ledger(used: Iterable[LedgerEntry], at: int) -> LedgerWords:
    """Return the ledger of one queue as of the second `at`.

    The size of an object is limited. If there are more than `MOST_ENTRIES`, the smallest are added
    up per model under the user "", so that the usage of the queue as a whole stays exact.
    """
    largest = sorted(used, key=lambda entry: (-entry.milli_seconds, entry.user, entry.model))
    kept, rest = largest, list[LedgerEntry]()
    if len(largest) > MOST_ENTRIES:
        most = max(0, MOST_ENTRIES - len({entry.model for entry in largest}))
        kept, rest = largest[:most], largest[most:]
    sums: dict[tuple[str, str], int] = {
        (entry.user, entry.model): entry.milli_seconds for entry in kept
    }
    for entry in rest:
        sums["", entry.model] = sums.get(("", entry.model), 0) + entry.milli_seconds
    entries = [
        UsageEntry(user=user, model=model, milli_seconds=value)
        for (user, model), value in sorted(sums.items())
        if value
    ]
    return LedgerWords(at=units.format_timestamp(at), entries=entries)


def read_ledger(
    ledger: Mapping[str, Any] | None, half_life_s: int, now: int
) -> Iterator[LedgerEntry]:
    """Yield the entries of a stored ledger, decayed to `now`; none if it cannot be read."""
    try:
        words = LedgerWords.model_validate(ledger)
        since = max(0, now - units.parse_timestamp(words.at))
    except (ValidationError, ValueError):
        return
    left = 2.0 ** (-since / half_life_s)
    for entry in words.entries:
        value = round(entry.milli_seconds * left)
        if value:
            yield LedgerEntry(entry.user, entry.model, value)
