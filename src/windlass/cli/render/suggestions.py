"""Changes that would start a waiting gang now, as JSON; the engine phrases their sentences."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windlass.model.jobs import GangId

if TYPE_CHECKING:
    from windlass.cli.explain.context import ExplainContext
    from windlass.engine.suggestions import Suggestions

MOST_GANGS = 3
"""The number of waiting gangs of one job for which changes are searched; a search is slow."""


def add_suggestions(context: ExplainContext, stories: Sequence[dict[str, Any]]) -> None:
    """Add the key `would_start` to the first stories of waiting gangs.

    Gangs for which places are being freed are left out: they start without a change.
    """
    from windlass.engine.suggestions import suggest

    states = ("Waits", "Never")
    waiting = [story for story in stories if story["state"] in states and "freed" not in story]
    if not waiting:
        return
    snapshot = context.cluster.snapshot()
    for story in waiting[:MOST_GANGS]:
        gang = context.cluster.gangs[GangId(story["gang"])]
        queues = context.open_to(gang.namespace) if context.open_to is not None else None
        story["would_start"] = _as_json(suggest(snapshot, gang.id, queues=queues))


def _as_json(result: Suggestions) -> dict[str, Any]:
    """Return all suggestions, and whether every change was tried."""
    return {
        "complete": result.complete,
        "sentences": result.sentences(),
        "suggestions": [
            {
                "kind": suggestion.change.kind,
                **suggestion.change.values,
                "at_once": suggestion.start.at_once,
                "goes": suggestion.start.goes,
                "goes_tasks": suggestion.start.tasks,
                "later": suggestion.start.later,
                "delays": suggestion.start.delays,
                "sentence": str(suggestion),
            }
            for suggestion in result.suggestions
        ],
    }
