"""Cuts a stream of chunks into lines of any length.

aiohttp's own `readline` refuses lines longer than its buffer, and one object may be megabytes.
Parts of a line are kept apart until its end is there, so that a long line costs its length and not
its square.
"""


class Lines:
    """What was read of the line that has not ended yet."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """Take a chunk and return the lines it completes, without their ends or empty ones."""
        pieces = chunk.split(b"\n")
        self._parts.append(pieces[0])
        if len(pieces) == 1:
            return []
        pieces[0] = b"".join(self._parts)
        self._parts = [pieces.pop()]
        return [line for line in pieces if line]
