"""Which ports of nodes are asked for: only what several tasks want can be taken from one of them.

Each port that is counted is a row over all nodes, so one that a single task asks for is not.
"""

from __future__ import annotations

from collections.abc import Iterator

from windlass.model.resources import Port


class PortDemand:
    """How many tasks ask for each port."""

    __slots__ = ("_asked",)

    def __init__(self) -> None:
        self._asked: dict[tuple[str, int], dict[Port, int]] = {}
        """By protocol and number, since one address may clash with all."""

    def count(self, port: Port, by: int) -> int:
        """So many more tasks ask for a port; answers how many want its number at any address."""
        key = port.protocol, port.number
        alike = self._asked.setdefault(key, {})
        alike[port] = alike.get(port, 0) + by
        if not alike[port]:
            del alike[port]
        if not alike:
            del self._asked[key]
        return sum(alike.values())

    def shared(self) -> Iterator[Port]:
        """The ports that more than one task asks for."""
        for alike in self._asked.values():
            if sum(alike.values()) > 1:
                yield from alike
