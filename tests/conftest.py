"""How much the properties try, and what a test may not do without."""

import os
from collections.abc import Callable
from typing import TypeVar

import pytest
from hypothesis import HealthCheck, settings

Found = TypeVar("Found")

# A busy machine is slow, not wrong: neither a deadline nor a slow generator fails a test.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True)

settings.register_profile("default", PATIENT, max_examples=50, derandomize=True)
settings.register_profile("proof", PATIENT, max_examples=2000)
settings.load_profile("proof" if os.environ.get("WINDLASS_PROOF") == "1" else "default")


@pytest.fixture(name="require", scope="session")
def require_fixture() -> Callable[[Found | None, str], Found]:
    """`require(what, sentence)`: what the test cannot do without, or the sentence that says why."""
    return require


def require(what: Found | None, sentence: str) -> Found:
    """Return `what` if it is there; else skip with the sentence, or fail if nothing may skip."""
    if what:
        return what
    if os.environ.get("WINDLASS_REQUIRE") == "all":
        pytest.fail(f"{sentence} (WINDLASS_REQUIRE=all)", pytrace=False)
    pytest.skip(sentence)
