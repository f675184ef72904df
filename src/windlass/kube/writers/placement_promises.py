"""Promises, written down before they are acted on.

Before the first pod of a gang is bound, and before the first victim is evicted for it, the places
kept for the gang are written on one of its pods. Whoever comes after a crash reads them: a gang
that is bound in part is completed on the places it was given, and what was freed stays its own.
Whom it waits for until they have saved their work stands there too, so that they are asked by the
same id and until the same deadline, whoever leads.

They are a condition in the pod's status, where schedulers and kubelets may write and users may not:
whoever could forge a promise could have others evicted. The text is short, since it has to hold the
places of hundreds of pods: for each node the pods, each with its devices.
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
from windlass.workloads.objects.annotations import PROMISE
from windlass.workloads.objects.wire import Pod, condition

LONGEST = 200_000
"""An object may have about a mebibyte, and every watcher of pods is sent this."""


Count: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 16)]
Milli: TypeAlias = Annotated[int, Meta(ge=0, le=WHOLE)]


class PromisedPlace(msgspec.Struct, array_like=True, frozen=True):
    """A pod and the devices kept for it."""

    task: str
    devices: tuple[tuple[Count, Milli, str, Count], ...] = ()


class Going(msgspec.Struct, array_like=True, frozen=True):
    """Pods that go by one rule, for one gang."""

    rule: EvictionRule
    gainer: str
    moves_to: str
    tasks: tuple[str, ...]


class AskedGang(msgspec.Struct, array_like=True, frozen=True):
    """A gang that is asked to save its work first."""

    gang: str
    id: str
    asked_at: Annotated[int, Meta(ge=0, le=LARGEST_AMOUNT)]
    deadline: Annotated[int, Meta(ge=0, le=LARGEST_AMOUNT)]
    going: tuple[Going, ...]


class Promise(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a gang was promised."""

    places: dict[str, tuple[PromisedPlace, ...]]
    """The pods that go to each node."""
    starts_at: Annotated[int, Meta(ge=0, le=LARGEST_AMOUNT)] = 0
    firm: bool = True
    evicts: tuple[str, ...] = ()
    """The pods that are evicted for it."""
    asks: tuple[AskedGang, ...] = ()
    """The gangs that are evicted for it once they have saved."""
    before: tuple[str, ...] = ()
    """The gangs to which places of it had been promised before; what was promised to them ends."""

    @property
    def partings(self) -> Iterator[PendingCheckpoint]:
        """The requests to save that stand for it."""
        for each in self.asks:
            evictions = tuple(
                Evict(TaskId(task), some.rule, GangId(some.gainer), some.moves_to)
                for some in each.going
                for task in some.tasks
            )
            yield PendingCheckpoint(
                GangId(each.gang), each.id, each.asked_at, each.deadline, evictions
            )


def promise_of(
    claims: Iterable[PlaceClaim],
    hold: Hold | None,
    evicts: Iterable[TaskId],
    partings: Iterable[PendingCheckpoint] = (),
    before: Iterable[GangId] = (),
) -> str:
    """The text that keeps these places; empty if it would be too long to be written."""
    places: dict[str, list[PromisedPlace]] = {}
    for each in claims:
        devices = tuple((d.device, d.milli, d.profile, d.start) for d in each.devices)
        places.setdefault(each.node, []).append(PromisedPlace(each.task, devices))
    promise = Promise(
        {node: tuple(there) for node, there in sorted(places.items())},
        hold.starts_at if hold else 0,
        hold.firm if hold else True,
        tuple(sorted(evicts)),
        tuple(_asked(each) for each in partings),
        tuple(sorted(before)),
    )
    text = msgspec.json.encode(promise).decode()
    return text if len(text) <= LONGEST else ""


def _asked(parting: PendingCheckpoint) -> AskedGang:
    going: dict[tuple[EvictionRule, str, str], list[str]] = {}
    for each in parting.evictions:
        going.setdefault((each.rule, each.gainer, each.moves_to), []).append(each.task)
    some = tuple(Going(*key, tuple(tasks)) for key, tasks in going.items())
    return AskedGang(parting.gang, parting.id, parting.asked_at, parting.deadline, some)


def condition_of(uid: str, text: str) -> dict[str, object]:
    """A promise as a patch of a pod's status; without a text it is over."""
    written = {
        "type": PROMISE,
        "status": "True" if text else "False",
        "reason": "PlacesKept" if text else "Over",
        "message": text,
    }
    return {"metadata": {"uid": uid}, "status": {"conditions": [written]}}


def text_of(pod: Pod) -> str:
    """What a pod says was promised; empty if nothing is."""
    found = condition(pod, PROMISE)
    return found.message if found is not None and found.status == "True" else ""


def read(text: str) -> Promise | None:
    """The promise in a text; None if it is none."""
    try:
        return msgspec.json.decode(text, type=Promise)
    except msgspec.MsgspecError:
        return None


def hold_of(gang: GangId, promise: Promise, requests: Mapping[TaskId, Request]) -> Hold | None:
    """The hold that a promise stands for, for those of its pods that still wait."""
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
    # in the order in which the engine takes tasks, so that each gets its own place: a bind that
    # was sent before us and takes effect late then meets the same bind, not another pod
    claims.sort(key=lambda claim: (len(claim.task), claim.task))
    return Hold(gang, tuple(claims), promise.starts_at, promise.firm) if claims else None
