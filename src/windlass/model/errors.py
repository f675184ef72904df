"""The errors of Windlass: each is one sentence that a user can act on.

    WindlassError            an error that the user can correct; the CLI prints it and exits with 2
    ├── InputError           a file cannot be used: its name, the line, and what to change
    └── UnknownName          a name does not exist; the error offers names that are close

Work that waits is not an error: it has a `Reason`. Our own defects are no `WindlassError`, so that
they end the program with a traceback.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

MOST_COMPARED = 10_000
"""The most names that are compared with a misspelt one."""
LONGEST_COMPARED = 300
"""The characters of a misspelt name that are compared."""
LONGEST = 600
"""The most characters of a sentence; longer ones are cut."""


class WindlassError(Exception):
    """The root of all errors; its text is one sentence with the finding and the remedy."""


class InputError(WindlassError):
    """A file cannot be used as it stands."""

    def __init__(self, file: str, line: int | None, sentence: str, more: int = 0) -> None:
        self.file = file
        self.line = line
        self.sentence = sentence
        self.more = more
        """The number of further problems in the file."""
        super().__init__(file, line, sentence, more)

    def __str__(self) -> str:
        place = self.file if self.line is None else f"{self.file}:{self.line}"
        more = f" (and {self.more} more)" if self.more else ""
        return one_line(f"{place}: {self.sentence}") + more


class UnknownName(WindlassError):
    """A name that does not exist; `close` holds up to three similar ones that do."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.close = close_names(name, known)
        super().__init__(one_line(f'there is no {kind} "{name}"; {_advice(self.close, kind)}'))


def close_names(name: str, known: Iterable[str]) -> tuple[str, ...]:
    """Return up to three known names with a similar spelling, the closest first."""
    candidates = sorted(set(known))[:MOST_COMPARED]
    return tuple(get_close_matches(name[:LONGEST_COMPARED], candidates, n=3, cutoff=0.6))


def one_line(text: str) -> str:
    """Return the text as one printable line of at most LONGEST characters.

    Control characters are written as escapes, so that input cannot drive the terminal.
    """
    shown = "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
    return shown if len(shown) <= LONGEST else f"{shown[: LONGEST - 3]}..."


def _advice(close: tuple[str, ...], kind: str) -> str:
    if not close:
        return f"check the name of the {kind}"
    return "did you mean " + " or ".join(f'"{name}"' for name in close) + "?"
