"""The history of a real cluster: what live daemons decided comes back to the letter."""

from __future__ import annotations

import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, scene
from tests.support.recordings import played_again
from windlass.history.location import HistoryError
from windlass.history.store import HistoryStore
from windlass_lab.control_plane.plane import Plane


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, team=24) as made:
        yield made
        made.check()


async def test_whoever_leads_next_continues_the_history_and_all_of_it_can_be_played_again(
    made: Scene, tmp_path: Path
) -> None:
    file = tmp_path / "history.db"
    flags: dict[str, Any] = {"history_url": f"sqlite:///{file}"}
    first = await made.leading(**flags)
    second = await made.start(**flags)
    await made.gang("a", 2, 8, "team")
    await made.wait_running(("a", 2))

    async def is_written() -> bool:
        return file.exists() and bound(file) == 2

    await wait_until(is_written, "the binds of the first leader are in the history")
    first.signal(signal.SIGKILL)
    await second.wait_said("leads")
    await made.gang("b", 1, 8, "team")
    await made.wait_running(("a", 2), ("b", 1))
    assert await second.stop() == 0
    stretches = HistoryStore(str(file)).stretches()
    writers = list(dict.fromkeys(each.writer for each in stretches))
    assert writers[-1].startswith("r1"), "the second replica wrote the end of it"
    cycles = played_again(str(file))
    assert cycles == sum(each.cycles for each in stretches) > 1
    assert len(writers) == 2
    assert bound(file) == 3


def bound(file: Path) -> int:
    """How many binds are recorded."""
    store = HistoryStore(str(file), new=False)
    try:
        store.demand()
    except HistoryError:
        return 0  # its tables are being made
    return sum(each.binds for each in store.from_on(0, 10**6))
