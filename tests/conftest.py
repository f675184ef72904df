"""Settings of all tests: counts of properties, requirements, and a marker per glossary word."""

import os
import re
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

GLOSSARY = {
    "backfill": "backfill",
    "backoff": "backoff|back_off",
    "bind": "bind|bound|binds",
    "checkpoint": "checkpoint|save|saves|saving|saved",
    "consolidate": "consolidat|moves?_|_moved",
    "cordon": "cordon",
    "delta": "delta",
    "domain": "domain|topolog|rack",
    "draft": "draft|attempt|undone",
    "elastic": "elastic|grow",
    "eligible": "eligib",
    "eta": "eta|forecast",
    "evict": "evict",
    "filter": "filter|predicate|fits?_",
    "forced_eviction": "forced|stale|overrun|leaves|lost",
    "gang": "gang",
    "guarantee": "guarantee",
    "history": "history|record|replay",
    "hold": "hold|holds|held",
    "lend": "lend|lent|borrow",
    "limit": "limit",
    "nominated": "nominat|promise",
    "order": "order|priorit|turn",
    "placeholder": "placeholder|stand_?in",
    "preempt": "preempt|priorit",
    "quarantine": "quarantine|failure",
    "queue": "queue",
    "reason": "reason|explain|told|says",
    "reclaim": "reclaim|guarantee|share",
    "redact": "redact|viewer|veil",
    "repeat_protection": "repeat_protection|spared?",
    "reservation": "reserv",
    "score": "score|fragment|pack",
    "share": "share",
    "snapshot": "snapshot",
    "suggestion": "suggest",
    "suspend": "suspend|resum",
    "usage": "usage|ledger",
    "victim": "victim|displac|evict",
}
"""The words of docs/concepts.md that tests are about. Each is a marker (`pytest -m reclaim`), given
to every test whose file or name contains one of the patterns."""
_PATTERNS = {word: re.compile(rf"(?:^|_|/)(?:{stems})") for word, stems in GLOSSARY.items()}


def pytest_configure(config: pytest.Config) -> None:
    """Register a marker for each word of the glossary."""
    for word in GLOSSARY:
        config.addinivalue_line("markers", f"{word}: tests about {word!r}, see docs/concepts.md")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark each test with the words that its file or its name contains."""
    for item in items:
        place = f"{item.path.parent.name}/{item.path.stem}/{item.name}".replace("test_", "")
        for word, pattern in _PATTERNS.items():
            if pattern.search(place):
                item.add_marker(word)


@pytest.fixture(name="require", scope="session")
def require_fixture() -> Callable[[Found | None, str], Found]:
    """Return `require`, for tests that need a program or data."""
    return require


def require(resource: Found | None, sentence: str) -> Found:
    """Return the resource; if it is absent, skip with the sentence, or fail if nothing may skip."""
    if resource:
        return resource
    if os.environ.get("WINDLASS_REQUIRE") == "all":
        pytest.fail(f"{sentence} (WINDLASS_REQUIRE=all)", pytrace=False)
    pytest.skip(sentence)
