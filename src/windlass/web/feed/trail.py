"""The newest of a line of documents, and what led to it: so a viewer is sent what it lacks.

Each document is encoded once, as a whole and as a change from the one before, whoever asks and how
many. The trail is bounded: who is further behind, or comes from another run, is sent the whole.
"""

from __future__ import annotations

from collections import deque

from windlass.web.feed.deltas import as_bytes, change

MOST_STEPS = 32
MOST_BYTES = 2_000_000


class DeltaTrail:
    """Documents of one kind, as one kind of viewer sees them, one after the other."""

    def __init__(self) -> None:
        self.tag = ""
        """Which document is the newest."""
        self._document: object = None
        self._whole: bytes | None = None
        self._steps: deque[tuple[str, bytes]] = deque()
        """From which document, and the change to the next."""

    def put(self, tag: str, document: object) -> None:
        """Add the next document."""
        if tag == self.tag:
            return
        if self._document is not None:
            found = change(self._document, document)
            self._steps.append((self.tag, as_bytes(found or {"in": {}, "out": []})))
            self._forget()
        self.tag, self._document, self._whole = tag, document, None

    def answer(self, since: str = "") -> bytes:
        """The newest document: as changes for who has one of the trail, else as a whole."""
        if since and since == self.tag:
            return _changes(since, [])
        begun = [tag for tag, _ in self._steps]
        if since in begun:
            return _changes(since, [step for _, step in self._steps][begun.index(since) :])
        if self._whole is None:
            self._whole = as_bytes(self._document)
        return self._whole

    def _forget(self) -> None:
        while (
            len(self._steps) > MOST_STEPS or sum(len(step) for _, step in self._steps) > MOST_BYTES
        ):
            self._steps.popleft()


def _changes(since: str, steps: list[bytes]) -> bytes:
    """A `Changes` of documents.py, from parts that are encoded already."""
    return b'{"since":%b,"changes":[%b]}' % (as_bytes(since), b",".join(steps))
