"""Sentences without the names of gangs and queues that a viewer may not see."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable

from windlass.model.reasons import Reason
from windlass.web.auth import Names, VisibleScope, namespace_of
from windlass.web.schema import RoomDocument

_GANG = re.compile(r"(?<![\w./-])([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)/[\w./~-]*[\w~]")
"""The pattern `namespace/name` of a gang or a task. Keys of labels usually have a dot before the
slash; a key without one is taken for a gang, and therefore hidden."""
_WORD = re.compile(r"(?:queue )?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")


def namespaces_in(sentences: Iterable[str]) -> frozenset[str]:
    """Return the namespaces of all gangs and tasks that the sentences name."""
    return frozenset(match[1] for sentence in sentences for match in _GANG.finditer(sentence))


def redact_sentence(sentence: str, scope: VisibleScope, hidden: Collection[str]) -> str:
    """Replace the names of gangs outside the scope and of the `hidden` queues; keep the rest."""

    def gang(match: re.Match[str]) -> str:
        return match[0] if scope.sees_gang(match[0]) else "another gang"

    def queue(match: re.Match[str]) -> str:
        return "another queue" if match[1] in hidden else match[0]

    return _GANG.sub(gang, _WORD.sub(queue, sentence) if hidden else sentence)


# -- reasons


class RedactedReason(Reason):
    """A reason whose sentence is redacted when it is read, and which has no values to read.

    Only the rows of a window are ever read, so redacting the sentences of all gangs that wait
    would be wasted work.
    """

    __slots__ = ("_original", "_redact")
    _original: Reason
    _redact: Callable[[str], str]

    def __init__(self, original: Reason, redact: Callable[[str], str]) -> None:
        super().__init__(original.why)
        object.__setattr__(self, "_original", original)
        object.__setattr__(self, "_redact", redact)

    def __str__(self) -> str:
        return self._redact(str(self._original))


def redact_reasons(reasons: tuple[Reason, ...], redact: Callable[[str], str]) -> tuple[Reason, ...]:
    """Return the reasons with redacted sentences; those that hold only numbers stay as they are.

    The numbers are no secret: they are in the conditions of the gang's own pods as well.
    """
    if not any(isinstance(value, str) for reason in reasons for value in reason.values.values()):
        return reasons
    return tuple(RedactedReason(reason, redact) for reason in reasons)


# -- room


def names_in_room(document: RoomDocument) -> Names:
    """Return the namespaces that the sentences of a document name."""
    starts = (start.sentence for start in document.starts)
    named = namespaces_in((*document.sentences, *starts, *document.notes))
    return Names(named | {namespace_of(document.gang)})


def redact_room(
    document: RoomDocument, scope: VisibleScope, hidden: Collection[str]
) -> RoomDocument:
    """Leave out sentences that name anything hidden: their numbers tell as much as the names.

    The fields of the result are named one by one: a field that is added to the document later is
    left out until it is named here.
    """

    def is_visible(sentence: str) -> bool:
        return redact_sentence(sentence, scope, hidden) == sentence

    sentences = [sentence for sentence in document.sentences if is_visible(sentence)]
    starts = [start for start in document.starts if is_visible(start.sentence)]
    notes = [note for note in document.notes if is_visible(note)]
    others = len(document.starts) - len(starts) + len(document.notes) - len(notes)
    return RoomDocument(
        gang=document.gang,
        cycle=document.cycle,
        sentences=[*sentences, *_omission(len(document.sentences) - len(sentences))],
        starts=starts,
        notes=[*notes, *_omission(others)],
    )


def _omission(count: int) -> list[str]:
    """Return a sentence that says how many sentences were left out; none if all are there."""
    more = "1 more sentence is" if count == 1 else f"{count} more sentences are"
    return [f"{more} about queues or jobs that you may not see"] if count else []
