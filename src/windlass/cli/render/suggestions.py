"""What would start a waiting gang now, for programs; the engine has the words for people."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from windlass.model.jobs import GangId

if TYPE_CHECKING:
    from windlass.cli.explain.context import ExplainContext
    from windlass.engine.explain.suggest import Suggested

MOST_ASKED = 3
"""Of one job, for so many waiting gangs it is worked out what would start them."""


def add_suggestions(scene: ExplainContext, stories: Sequence[dict[str, Any]]) -> None:
    """Add to the first gangs that wait, and for which nothing is freed, what would start them."""
    from windlass.engine.explain.suggest import suggest

    is_waiting = ("Waits", "Never")
    waiting = [each for each in stories if each["state"] in is_waiting and "freed" not in each]
    if not waiting:
        return
    here = scene.cluster.snapshot()
    for story in waiting[:MOST_ASKED]:
        gang = scene.cluster.gangs[GangId(story["gang"])]
        queues = scene.open_to(gang.namespace) if scene.open_to is not None else None
        story["would_start"] = _as_json(suggest(here, gang.id, queues=queues))


def _as_json(found: Suggested) -> dict[str, Any]:
    """All suggestions, and whether everything was tried."""
    return {
        "complete": found.complete,
        "sentences": found.sentences(),
        "suggestions": [
            {
                "kind": each.change.kind,
                **each.change.values,
                "at_once": each.start.at_once,
                "goes": each.start.goes,
                "goes_tasks": each.start.tasks,
                "later": each.start.later,
                "delays": each.start.delays,
                "sentence": str(each),
            }
            for each in found.suggestions
        ],
    }
