"""PriorityClasses: the API server writes into pods what they say."""

from __future__ import annotations

from windlass.workloads.objects.wire import PriorityClass


class Priorities:
    """All classes that were seen, by name."""

    __slots__ = ("_usual", "meek", "named", "version")

    def __init__(self) -> None:
        self.named: dict[str, int] = {}
        """Their values."""
        self.meek: set[str] = set()
        """Their pods displace nobody."""
        self._usual: set[str] = set()
        """Of pods that name none."""
        self.version = 0
        """Counts what was seen."""

    def see(self, found: PriorityClass, gone: bool) -> bool:
        """One is new, has changed or is gone; answers whether its value is another."""
        self.version += 1
        name, is_meek = found.metadata.name, found.preemption_policy == "Never"
        for names, belongs in ((self.meek, is_meek), (self._usual, found.global_default)):
            (names.add if belongs and not gone else names.discard)(name)
        value = None if gone else found.value
        if self.named.get(name) == value:
            return False
        if value is None:
            del self.named[name]
        else:
            self.named[name] = value
        return True

    def values(self) -> dict[str, int]:
        """By name, and by none."""
        usual = min((self.named[each] for each in self._usual if each in self.named), default=None)
        return self.named if usual is None else self.named | {"": usual}
