"""Structured log lines on stderr: one per cycle, and one per notable event."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TextIO

LEVELS = ("debug", "info", "warning", "error")


@dataclass(slots=True)
class StructuredLog:
    """Writes lines of at least `level`, as JSON or as text."""

    format: str = "json"
    level: str = "info"
    stream: TextIO = field(default_factory=lambda: sys.stderr)

    def line(self, what: str, *, level: str = "info", **values: object) -> None:
        """Write one line: a fixed event name and its values."""
        if LEVELS.index(level) < LEVELS.index(self.level):
            return
        at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if self.format == "json":
            text = json.dumps({"at": at, "level": level, "what": what, **values}, default=str)
        else:
            pairs = " ".join(f"{key}={value}" for key, value in values.items())
            text = f"{at[11:23]} {what:<16} {pairs}".rstrip()
        print(text, file=self.stream, flush=True)
