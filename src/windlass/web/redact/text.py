"""Sentences without the names of what somebody may not see."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from windlass.web.auth.authorization import VisibleScope

_GANG = re.compile(r"(?<![\w./-])([a-z0-9](?:[a-z0-9-]*[a-z0-9])?)/[\w./~-]*[\w~]")
"""`namespace/name`, also of a task. Keys of labels have a dot before the slash as a rule; one
without is taken for a gang, and so for hidden."""
_WORD = re.compile(r"(?:queue )?([a-z0-9](?:[a-z0-9.-]*[a-z0-9])?)")


def namespaces_in(sentences: Iterable[str]) -> frozenset[str]:
    """The namespaces of all that is named."""
    return frozenset(found[1] for each in sentences for found in _GANG.finditer(each))


def spoken(sentence: str, view: VisibleScope, hidden: Collection[str]) -> str:
    """The sentence with other words for gangs that may not be seen, and for hidden queues."""

    def gang(found: re.Match[str]) -> str:
        return found[0] if view.sees_gang(found[0]) else "another gang"

    def queue(found: re.Match[str]) -> str:
        return "another queue" if found[1] in hidden else found[0]

    return _GANG.sub(gang, _WORD.sub(queue, sentence) if hidden else sentence)
