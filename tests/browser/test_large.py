"""80,000 GPUs: the times of the first paint and of updates, printed and not asserted."""

from __future__ import annotations

import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import assert_same_picture
from tests.browser.large_cluster import GPUS, Large
from tests.browser.test_pictures import SIZE, taken
from windlass.web.documents.live_state import LiveState
from windlass.web.server.local_server import run_local_server

NODES, UPDATES = 10_000, 12

WATCH = """
window.told = new Map();   // when the server said that there is something new, by version
window.painted = new Map();
window.long = [];
new PerformanceObserver((list) => list.getEntries().forEach((each) => long.push(each.duration)))
    .observe({ type: "longtask", buffered: true });
const Source = window.EventSource;
window.EventSource = class extends Source {
    set onmessage(act) {
        super.onmessage = (event) => {
            told.set(String(JSON.parse(event.data).version), performance.now());
            act(event);
        };
    }
};
new MutationObserver((changes) => {
    for (const { target } of changes) {
        const version = target.dataset?.version;
        if (!version || painted.has(version)) continue;
        painted.set(version, 0);
        requestAnimationFrame(() => setTimeout(() => painted.set(version, performance.now())));
    }
}).observe(document, { subtree: true, attributes: true, attributeFilter: ["data-version"] });
"""

PAINTED = """
(version) => new Promise((done, fail) => {
    let looks = 0;
    const look = () => {
        if (painted.get(version) > 0) done(painted.get(version));
        else if (looks++ > 3000) fail(new Error(`version ${version} was not painted`));
        else setTimeout(look, 10);
    };
    look();
})
"""


class Site:
    """A large cluster, served."""

    def __init__(self, large: Large, board: LiveState, address: str) -> None:
        self.large, self.board, self.address = large, board, address
        self.showing: list[float] = []

    def show(self) -> None:
        """Show the cluster as the scheduler does after a cycle, and record the time that takes."""
        self.board.note(self.large.cluster, self.large.plan)
        began = time.thread_time()
        self.board.show(self.large.cluster, self.large.plan)
        self.showing.append(1000 * (time.thread_time() - began))


class OwnTime:
    """The time that the page's main thread has computed, whatever else the machine was doing."""

    def __init__(self) -> None:
        self._session: Any = None
        self._before = 0.0

    def begin(self, page: Any) -> None:
        """Prepare a page before it loads anything."""
        page.add_init_script(WATCH)
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})

    def spent(self) -> float:
        """Return the milliseconds since the last call."""
        metrics = self._session.send("Performance.getMetrics")["metrics"]
        now = next(each["value"] for each in metrics if each["name"] == "TaskDuration")
        before, self._before = self._before, now
        return 1000 * (now - before)


def machine() -> str:
    """Return how busy the machine was, so that a reader can judge the times."""
    return f"with {os.getloadavg()[0]:.0f} processes at work on {os.cpu_count()} cores"


@pytest.fixture(name="large", scope="module")
def large_fixture() -> Iterator[Site]:
    board = LiveState("run", played=True)
    with run_local_server(board, 0) as address:
        made = Site(Large(NODES), board, address)
        made.show()
        yield made


def test_eighty_thousand_gpus_are_painted_and_followed(
    large: Site, open_page: Any, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    own = OwnTime()
    page = open_page(large.address, own.begin, viewport=SIZE)
    first, first_own = page.evaluate(PAINTED, "1"), own.spent()
    page.wait_for_timeout(500)
    page.evaluate("long.length = 0")
    own.spent()
    for version in range(2, UPDATES + 2):
        large.large.move()
        large.show()
        page.evaluate(PAINTED, str(version))
        page.wait_for_timeout(50)
    updates_own = own.spent() / UPDATES
    spent = page.evaluate("[...told].map(([v, at]) => painted.get(v) - at).filter((ms) => ms > 0)")
    longest = max(page.evaluate("long"), default=0)
    with capsys.disabled():
        print(
            f"\n{NODES * GPUS:,} GPUs: first paint {first:.0f} ms ({first_own:.0f} ms of them the"
            f" page's own time); update, told to painted: median {statistics.median(spent[1:]):.0f}"
            f" ms, longest {max(spent[1:]):.0f} ms (own time {updates_own:.0f} ms); longest task of"
            f" the page {longest:.0f} ms; the scheduler's own time per update"
            f" {statistics.median(large.showing):.1f} ms, {machine()}"
        )
    assert len(spent) >= UPDATES
    parts = page.locator(".fig").evaluate_all(
        """all => all.map(fig => ["small", "svg"].map(part => fig.querySelector(part)))
            .filter(([unit, curve]) => unit && curve)
            .map(pair => pair.map(each => each.getBoundingClientRect()))
            .map(([unit, curve]) => curve.left - unit.right)"""
    )
    assert parts
    assert min(parts) >= 0, "no curve covers a large number"
    taken(page, "large", tmp_path)


def test_a_large_page_that_applied_deltas_equals_a_new_page(large: Site, open_page: Any):
    followed = open_page(large.address)
    followed.wait_for_selector("canvas[data-version]")
    for _ in range(3):
        large.large.move(500)
        large.show()
    assert large.board.stamp is not None
    anew = open_page(large.address)
    assert_same_picture(followed, anew, large.board.stamp.version)
