"""Change the owners of gangs: suspend one that runs, resume it, remove our mark.

The suspend field, our mark and its signature are written in one patch, conditional on the version
that was read right before. If somebody changed the owner meanwhile, that change stands: the owner
is read again and the patch is made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from windlass.kube.client import Api, ApiError, Conflict, NotFound, Patch, Urgency, WriteQueue
from windlass.kube.writers.binder import Binder
from windlass.kube.writes import OwnerChange, OwnerWrite, OwnerWriteFailed
from windlass.workloads.kinds import OwnerState, field_patch, is_suspended, mark_text, owner_state
from windlass.workloads.objects import NO_SEAL, SEAL, SUSPENDED, Owner, Seal, without_unsigned_mark

MOST_TRIES = 5
"""Attempts after conflicts: controllers write the status of an owner often."""
_owner = msgspec.json.Decoder(Owner)


class OwnerWriter:
    """Suspends and resumes owners; failures are reported."""

    def __init__(
        self,
        api: Api,
        workers: WriteQueue,
        binder: Binder,
        report: Callable[[OwnerWriteFailed], None],
    ) -> None:
        self._api, self._workers, self._binder = api, workers, binder
        self._report = report
        self.seal = NO_SEAL

    def turn(self, turn: OwnerWrite) -> None:
        """Queue the change of an owner."""

        async def attempt() -> None:
            await write(self._api, turn, self.seal)

        def give_up(error: ApiError) -> None:
            self._report(OwnerWriteFailed(turn, error.message))

        self._workers.put(Urgency.BIND, self._binder.repeated(Urgency.BIND, attempt, give_up))


async def write(api: Api, turn: OwnerWrite, seal: Seal) -> None:
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


def patch_of(turn: OwnerWrite, found: Owner, seal: Seal) -> dict[str, Any] | None:
    """Return the patch for an owner in its current state.

    None if nothing is to be done, or if the owner is no longer in the state that we made.
    """
    found = without_unsigned_mark(found, seal)
    field, how = turn.switch.field, owner_state(found, turn.switch.field)
    match turn.to:
        case OwnerChange.SUSPENDED:
            is_due = not is_suspended(found.spec, field)
        case OwnerChange.RESUMED:
            is_due = how is OwnerState.SUSPENDED
        case OwnerChange.SUSPENDED_AGAIN:
            is_due = how is OwnerState.RESUMED
        case OwnerChange.UNMARKED:
            is_due = how in (OwnerState.RESUMED, OwnerState.TAKEN)
    if not is_due:
        return None
    meta = found.metadata
    note = mark_text(turn.mark) if turn.mark else None
    signature = seal.sign(meta.uid, SUSPENDED, note) if note else None
    body: dict[str, Any] = {
        "metadata": {
            "uid": meta.uid,
            "resourceVersion": meta.resource_version,
            "annotations": {SUSPENDED: note, SEAL: signature},
        }
    }
    if turn.to is OwnerChange.UNMARKED:
        return body
    return body | field_patch(field, turn.to is not OwnerChange.RESUMED)
