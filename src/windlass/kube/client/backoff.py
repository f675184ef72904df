"""How long to wait after a failure: longer each time, never for ever, and never all at once.

The wait is drawn between half of the step and the whole of it, so that replicas which lost the same
server do not come back in the same instant. Chance is passed in: a test seeds it.
"""

from dataclasses import dataclass
from random import Random


@dataclass(slots=True)
class Backoff:
    """A step that doubles with each failure and starts again after a success."""

    chance: Random
    first_s: float = 0.1
    cap_s: float = 30.0
    failures: int = 0

    def succeeded(self) -> None:
        """Start again from the first step."""
        self.failures = 0

    def failed(self, at_least_s: float | None = None) -> float:
        """Count a failure and return the seconds to wait, as the server wishes up to the cap."""
        step_s = min(self.cap_s, self.first_s * 2 ** min(self.failures, 30))
        self.failures += 1
        wish_s = min(self.cap_s, at_least_s or 0.0)
        return wish_s + step_s * self.chance.uniform(0.5, 1.0)
