"""What would start a gang that waits, row by row; the words are those of the terminal."""

from __future__ import annotations

from windlass.engine.explain.suggest import MOST_TOLD, suggest
from windlass.engine.explain.suggestions.catalog import ChangeKind
from windlass.model.jobs import GangId
from windlass.state.snapshot import Snapshot
from windlass.web.schema.documents import StartRow


def starts(here: Snapshot, gang: GangId) -> tuple[list[StartRow], list[str]]:
    """The changes that are told, what is not allowed last, and what is said beside them."""
    found = suggest(here, gang)
    told = found.suggestions[:MOST_TOLD]
    rows = [StartRow(e.change.kind, str(e), e.change.kind is not ChangeKind.STOP) for e in told]
    # each part stays as it was: the smallest first
    return sorted(rows, key=lambda row: not row.allowed), found.sentences()[len(told) :]
