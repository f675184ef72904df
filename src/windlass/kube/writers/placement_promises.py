"""Promises: the places of a gang, written on one of its pods before they are acted on.

A promise is written before the first pod of a gang is bound, and before the first victim is evicted
for it. A new leader reads it after a crash: it completes a partly bound gang on the places it was
given, and keeps the freed places for the gang. The promise also lists the victims with a pending
checkpoint, so that a new leader requests the checkpoint by the same id and with the same deadline.

A promise is a condition in the pod's status, which schedulers and kubelets may write and users may
not: a user who could forge a promise could have other gangs evicted. The text is short, since it
has to hold the places of hundreds of pods: for each node the pods, each with its devices.

    {"places": {node: [[task, [[device, milli, profile, start], ...]], ...]}, ...}

This module is pure: `binder.py` does the writing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, TypeAlias

import msgspec
from msgspec import Meta

from windlass.model.actions import Evict, EvictionRule, Hold, PendingCheckpoint, PlaceClaim
from windlass.model.gpus import WHOLE, Slice
from windlass.model.jobs import GangId, TaskId
from windlass.model.resources import Request
from windlass.model.units import LARGEST_AMOUNT
from windlass.workloads.objects import PROMISE, Pod, condition

LONGEST = 200_000
"""Characters of a promise at most: an object may have about a mebibyte, and every watcher of pods
receives this text."""


Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 16)]
Milli: TypeAlias = Annotated[int, Meta(ge=0, le=WHOLE)]


class PromisedPlace(msgspec.Struct, array_like=True, frozen=True):
    """A pod and the devices kept for it."""

    task: str
    devices: tuple[tuple[Count, Milli, str, Count], ...] = ()


class PromisedEvictions(msgspec.Struct, array_like=True, frozen=True):
    """Pods that are evicted by one rule, for one preemptor."""

    rule: EvictionRule
    gainer: str
    """The preemptor."""
    moves_to: str
    tasks: tuple[str, ...]


class CheckpointingGang(msgspec.Struct, array_like=True, frozen=True):
    """A gang of victims that checkpoints before its eviction."""

    gang: str
    id: str
    asked_at: Annotated[int, Meta(ge=0, le=LARGEST_AMOUNT)]
    deadline: Annotated[int, Meta(ge=0, le=LARGEST_AMOUNT)]
    going: tuple[PromisedEvictions, ...]


class Promise(msgspec.Struct, frozen=True, omit_defaults=True):
    """The places that a gang was promised, and the evictions that free them."""

    places: dict[str, tuple[PromisedPlace, ...]]
    """The pods of the gang by the node to which they will be bound."""
    starts_at: Annotated[int, Meta(ge=0, le=LARGEST_AMOUNT)] = 0
    firm: bool = True
    evicts: tuple[str, ...] = ()
    """The pods that are evicted for the gang."""
    asks: tuple[CheckpointingGang, ...] = ()
    """The gangs that are evicted for it after their checkpoint."""
    before: tuple[str, ...] = ()
    """The gangs to which some of these places had been promised before; those promises end."""

    @property
    def pending_checkpoints(self) -> Iterator[PendingCheckpoint]:
        """The pending checkpoints of victims of this gang."""
        for victim in self.asks:
            evictions = tuple(
                Evict(TaskId(task), promised.rule, GangId(promised.gainer), promised.moves_to)
                for promised in victim.going
                for task in promised.tasks
            )
            yield PendingCheckpoint(
                GangId(victim.gang), victim.id, victim.asked_at, victim.deadline, evictions
            )


def promise_of(
    claims: Iterable[PlaceClaim],
    hold: Hold | None,
    evicts: Iterable[TaskId],
    partings: Iterable[PendingCheckpoint] = (),
    before: Iterable[GangId] = (),
) -> str:
    """Return the text of a promise of these places; empty if it would be longer than `LONGEST`."""
    places: dict[str, list[PromisedPlace]] = {}
    for claim in claims:
        devices = tuple((d.device, d.milli, d.profile, d.start) for d in claim.devices)
        places.setdefault(claim.node, []).append(PromisedPlace(claim.task, devices))
    promise = Promise(
        {node: tuple(on_node) for node, on_node in sorted(places.items())},
        hold.starts_at if hold else 0,
        hold.firm if hold else True,
        tuple(sorted(evicts)),
        tuple(_checkpointing(pending) for pending in partings),
        tuple(sorted(before)),
    )
    text = msgspec.json.encode(promise).decode()
    return text if len(text) <= LONGEST else ""


def _checkpointing(pending: PendingCheckpoint) -> CheckpointingGang:
    """Return a pending checkpoint in the short form of a promise."""
    tasks_by: dict[tuple[EvictionRule, str, str], list[str]] = {}
    for evict in pending.evictions:
        tasks_by.setdefault((evict.rule, evict.gainer, evict.moves_to), []).append(evict.task)
    evictions = tuple(PromisedEvictions(*key, tuple(tasks)) for key, tasks in tasks_by.items())
    return CheckpointingGang(
        pending.gang, pending.id, pending.asked_at, pending.deadline, evictions
    )


def condition_of(uid: str, text: str) -> dict[str, object]:
    """Return a promise as a patch of a pod's status; an empty text ends the promise."""
    written = {
        "type": PROMISE,
        "status": "True" if text else "False",
        "reason": "PlacesKept" if text else "Over",
        "message": text,
    }
    return {"metadata": {"uid": uid}, "status": {"conditions": [written]}}


def text_of(pod: Pod) -> str:
    """Return the text of the promise on a pod; empty if there is none."""
    written = condition(pod, PROMISE)
    return written.message if written is not None and written.status == "True" else ""


def read(text: str) -> Promise | None:
    """Return the promise that a text holds; None if it cannot be read."""
    try:
        return msgspec.json.decode(text, type=Promise)
    except msgspec.MsgspecError:
        return None


def hold_of(gang: GangId, promise: Promise, requests: Mapping[TaskId, Request]) -> Hold | None:
    """Return the hold of a promise, for its pods that still wait; None if none does.

    `requests` are the requests of the waiting tasks of the gang.
    """
    claims = [
        PlaceClaim(
            TaskId(place.task),
            node,
            tuple(Slice(*device) for device in place.devices),
            requests[TaskId(place.task)],
        )
        for node, places in promise.places.items()
        for place in places
        if TaskId(place.task) in requests
    ]
    # In the order in which the engine takes tasks, so that each task gets its own place again. A
    # bind that the previous leader sent, and that takes effect late, then meets the same bind and
    # not that of another pod.
    claims.sort(key=lambda claim: (len(claim.task), claim.task))
    return Hold(gang, tuple(claims), promise.starts_at, promise.firm) if claims else None
