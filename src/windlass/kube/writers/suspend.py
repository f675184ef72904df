"""Change the owners of gangs: suspend one that runs, resume it, remove our mark.

The suspend field, our mark and its signature are written in one patch, conditional on the version
that was read right before. If somebody changed the owner meanwhile, that change stands: the owner
is read again and the patch is made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from windlass.kube.client.client import Api, Patch
from windlass.kube.client.errors import ApiError, Conflict, NotFound
from windlass.kube.client.write_queue import Urgency, WriteQueue
from windlass.kube.writers.binder import Binder
from windlass.kube.writes import To, Turn, TurnFailed
from windlass.workloads.kinds.suspension import (
    OwnerState,
    is_suspended,
    standing,
    text_of,
    with_field,
)
from windlass.workloads.objects.annotations import SEAL, SUSPENDED
from windlass.workloads.objects.signed_marks import NO_SEAL, Seal, believed
from windlass.workloads.objects.wire import Owner

MOST_TRIES = 5
"""Attempts after conflicts: controllers write the status of an owner often."""
_owner = msgspec.json.Decoder(Owner)


class Turner:
    """Suspends and resumes owners; failures are reported."""

    def __init__(
        self, api: Api, workers: WriteQueue, binder: Binder, report: Callable[[TurnFailed], None]
    ) -> None:
        self._api, self._workers, self._binder = api, workers, binder
        self._report = report
        self.seal = NO_SEAL

    def turn(self, turn: Turn) -> None:
        """Queue the change of an owner."""

        async def attempt() -> None:
            await write(self._api, turn, self.seal)

        def give_up(error: ApiError) -> None:
            self._report(TurnFailed(turn, error.message))

        self._workers.put(Urgency.BIND, self._binder.repeated(Urgency.BIND, attempt, give_up))


async def write(api: Api, turn: Turn, seal: Seal) -> None:
    """Change an owner now; raises an `ApiError` if that fails."""
    for left in reversed(range(MOST_TRIES)):
        found = _owner.decode(await api.get(turn.switch.path))
        if found.metadata.uid != turn.switch.uid:
            raise NotFound(404, "NotFound", "its owner was replaced by one of the same name")
        body = patch_of(turn, found, seal)
        if body is None:
            return
        try:
            await api.patch(turn.switch.path, body, kind=Patch.MERGE)
            return
        except Conflict:
            if not left:
                raise


def patch_of(turn: Turn, found: Owner, seal: Seal) -> dict[str, Any] | None:
    """Return the patch for an owner in its current state.

    None if nothing is to be done, or if the owner is no longer in the state that we made.
    """
    found = believed(found, seal)
    field, how = turn.switch.field, standing(found, turn.switch.field)
    match turn.to:
        case To.SUSPENDED:
            is_due = not is_suspended(found.spec, field)
        case To.RESUMED:
            is_due = how is OwnerState.SUSPENDED
        case To.SUSPENDED_AGAIN:
            is_due = how is OwnerState.RESUMED
        case To.UNMARKED:
            is_due = how in (OwnerState.RESUMED, OwnerState.TAKEN)
    if not is_due:
        return None
    meta = found.metadata
    note = text_of(turn.mark) if turn.mark else None
    signature = seal.sign(meta.uid, SUSPENDED, note) if note else None
    body: dict[str, Any] = {
        "metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "annotations": {SUSPENDED: note, SEAL: signature},
        }
    }
    if turn.to is To.UNMARKED:
        return body
    return body | with_field(field, turn.to is not To.RESUMED)
