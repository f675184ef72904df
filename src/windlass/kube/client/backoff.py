"""The waiting time after a failure: exponential, capped, and with jitter.

The wait is drawn between half of the step and the whole step, so that replicas which lost the same
server do not retry in the same instant. The random source is passed in, so that a test can seed it.
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
    """Failures since the last success."""

    def succeeded(self) -> None:
        """Start again from the first step."""
        self.failures = 0

    def failed(self, at_least_s: float | None = None) -> float:
        """Count a failure and return the seconds to wait.

        `at_least_s` is the server's Retry-After. It is honoured up to the cap, and the jittered
        step comes on top: clients that were told the same second should not return together.
        """
        step_s = min(self.cap_s, self.first_s * 2 ** min(self.failures, 30))
        self.failures += 1
        retry_after_s = min(self.cap_s, at_least_s or 0.0)
        return retry_after_s + step_s * self.chance.uniform(0.5, 1.0)
