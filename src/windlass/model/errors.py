"""The errors of Windlass: each is one sentence that a user can act on.

    WindlassError            anything the user can mend; the command line prints it and exits with 2
    ├── InputError           a file cannot be used: which, at which line, and what to do about it
    └── NotFound             a name was asked for that is not there; it offers names that are close

Work that waits is no error: that is a `Reason`. What is our own mistake is no `WindlassError`
either, so that it stays visible.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST_COMPARED = 10_000
LONGEST_COMPARED = 300
LONGEST = 600
"""No sentence is longer, whatever was found."""


class WindlassError(Exception):
    """The root; its text is one sentence that says what was found and what to do."""


class InputError(WindlassError):
    """A file cannot be used as it stands."""

    def __init__(self, file: str, line: int | None, sentence: str, more: int = 0) -> None:
        self.file = file
        self.line = line
        self.sentence = sentence
        self.more = more
        """How many further problems the file has."""
        super().__init__(file, line, sentence, more)

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        more = f" (and {self.more} more)" if self.more else ""
        return one_line(f"{place}: {self.sentence}") + more


class UnknownName(WindlassError):
    """There is no such thing; the names that come close are offered."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.close = close_names(name, known)
        super().__init__(one_line(f'there is no {kind} "{name}"; {_advice(self.close, kind)}'))


def close_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Up to three known names that are spelt nearly like this one, the closest first."""
    some = sorted(set(known))[:MOST_COMPARED]
    return tuple(get_close_matches(name[:LONGEST_COMPARED], some, n=3, cutoff=0.6))


def one_line(text: str) -> str:
    """The text as one line for a terminal: what cannot be printed is written as its code."""
    shown = "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."


def _advice(close: tuple[str, ...], kind: str) -> str:
    if not close:
        return f"check the name of the {kind}"
    return "did you mean " + " or ".join(f'"{each}"' for each in close) + "?"
