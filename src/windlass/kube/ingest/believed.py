"""Owners as they were seen, without marks that our scheduler did not sign.

All else reads marks from these owners, so that nothing follows from a mark that a user wrote. An
owner that is suspended and has such a mark may have been suspended by an older version, which did
not sign: it is left as it is, and told once, so that somebody can resume it.
"""

from __future__ import annotations

from typing import NamedTuple

from windlass.kube.ingest.scope import Scope
from windlass.workloads.kinds.suspension import is_suspended, mark_of
from windlass.workloads.kinds.table import Key
from windlass.workloads.objects.signed_marks import believed
from windlass.workloads.objects.wire import Owner

MOST_TOLD = 1000
"""Of so many owners it is told; users can make any number of them."""


class Unsigned(NamedTuple):
    """A suspended owner with a mark that is not believed."""

    kind: Key
    namespace: str
    name: str
    field: str
    """The field that suspends it, such as `spec.suspend`."""


class Believed:
    """Takes unsigned marks away, and remembers which owners were told."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._told: set[str] = set()
        self._due: list[Unsigned] = []

    def of(self, kind: Key, owner: Owner) -> Owner:
        """The owner, with its mark only if our scheduler wrote that."""
        found = believed(owner, self._scope.seal)
        if found is not owner:
            self._tell(kind, owner)
        return found

    def due(self) -> list[Unsigned]:
        """The owners that are to be told now, each once."""
        found, self._due = self._due, []
        return found

    def _tell(self, kind: Key, owner: Owner) -> None:
        meta, row = owner.metadata, self._scope.kinds.get(kind)
        if row is None or not row.suspend or not is_suspended(owner.spec, row.suspend):
            return
        if meta.uid in self._told or len(self._told) >= MOST_TOLD:
            return
        if self._scope.has_owner(meta) and mark_of(meta) is not None:
            self._told.add(meta.uid)
            self._due.append(Unsigned(kind, meta.namespace, meta.name, row.suspend))
