"""A real browser on a real server: the system's Chromium, and a simulation on the dashboard.

- `browser`: Chromium, one for all tests of a file.
- `open_page`: a page at an address; it fails the test if the console had an error or if anything
  was asked of another host.
- `site`: a server with a simulation behind it that a test can move on.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import sync_playwright

from windlass.cli.demo_support.background_eta import BackgroundEta
from windlass.cli.demo_support.dashboard import SimulationDashboard
from windlass.sim.generate.week import EXAMPLE_SEED, generate
from windlass.sim.run import Simulation
from windlass.sim.workload import Workload
from windlass.web.server.app import STATIC
from windlass.web.server.local_server import run_local_server

NAMES = ("chromium", "chromium-browser", "google-chrome")
NOON = 14 * 3600
PATIENCE_S = 120
Require = Callable[[Any, str], Any]


class Site:
    """A simulation, served."""

    def __init__(self, workload: Workload, expected: BackgroundEta | None = None) -> None:
        self.simulation = Simulation(workload)
        self.expected = expected
        self.dashboard = SimulationDashboard(expected)
        self.address = ""
        self._server = ExitStack()

    def play(self, until: int) -> None:
        """Go on to a time, and show it."""
        while (at := self.simulation.next_at()) is not None and at <= until:
            self.dashboard.step(self.simulation)
        self.dashboard.show(self.simulation)

    def forecast(self, page: Any) -> None:
        """Wait until there are ETAs, while a page looks, and show them."""
        assert self.expected is not None
        until = time.monotonic() + PATIENCE_S
        while not self.expected.etas:
            assert time.monotonic() < until, "no forecast came back"
            self.dashboard.show(self.simulation)
            page.wait_for_timeout(50)
        self.dashboard.show(self.simulation)

    def serve(self, port: int = 0) -> None:
        """Begin to serve."""
        self.address = self._server.enter_context(run_local_server(self.dashboard.board, port))

    def stop(self) -> None:
        """Stop serving."""
        self._server.close()

    def restart(self) -> None:
        """Stop, and begin anew at the same port, as another process would: a run of its own."""
        port = int(self.address.rstrip("/").rpartition(":")[2])
        self.stop()
        self.dashboard = SimulationDashboard()
        self.dashboard.note(self.simulation)
        self.dashboard.show(self.simulation)
        self.serve(port)


@pytest.fixture(scope="module")  # while it is there no test can have an event loop of its own
def browser(require: Require) -> Iterator[Any]:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    program = require(found, "The tests of the dashboard need Chromium, which is not in PATH.")
    built = STATIC / "index.html"
    require(built.is_file(), "The dashboard is not built; `make ui` does it where Node 20 is.")
    with sync_playwright() as playwright:
        made = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        yield made
        made.close()


@pytest.fixture(scope="session")
def shared_site() -> Iterator[Site]:
    """The busiest hour of the example day; it does not move, but for who asks for a forecast."""
    with closing(BackgroundEta()) as expected:
        made = Site(generate(EXAMPLE_SEED, 24, 24), expected)
        made.play(NOON)
        made.serve()
        yield made
        made.stop()


@pytest.fixture
def site() -> Iterator[Site]:
    """A small cluster early in its day, to be moved on."""
    made = Site(generate(EXAMPLE_SEED, 24, 8))
    made.play(9 * 3600)
    made.serve()
    yield made
    made.stop()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    troubles: list[str] = []
    contexts: list[Any] = []

    def opened(address: str, prepare: Callable[[Any], None] | None = None, **options: Any) -> Any:
        options.setdefault("viewport", {"width": 1440, "height": 900})
        context = browser.new_context(**options)
        contexts.append(context)
        page = context.new_page()
        if prepare:
            prepare(page)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("console", lambda said: _note_error(said, troubles))
        home = urlsplit(address).netloc
        page.on("request", lambda asked: _note_foreign(asked.url, home, troubles))
        page.goto(address)
        return page

    yield opened
    for each in contexts:
        each.close()
    assert troubles == []


def _note_error(said: Any, troubles: list[str]) -> None:
    # a server that is away, or a job that is gone, is no fault of the page; the browser reports it
    is_away = "ERR_CONNECTION_REFUSED" in said.text
    is_gone = "404" in said.text and "/api/job?" in said.location.get("url", "")
    if said.type == "error" and not is_away and not is_gone:
        troubles.append(said.text)


def _note_foreign(url: str, home: str, troubles: list[str]) -> None:
    if not url.startswith("data:") and urlsplit(url).netloc != home:
        troubles.append(f"asked another host: {url}")


def assert_same_picture(one: Any, other: Any, version: int) -> None:
    """Two pages show the same moment of the map, to the pixel and to the letter."""
    shown = []
    for page in (one, other):
        page.wait_for_selector(f"canvas[data-version='{version}']")
        canvas = page.locator(".map canvas[role]")
        shown.append(
            (canvas.evaluate("each => each.toDataURL()"), page.locator("main").inner_text())
        )
    assert shown[0] == shown[1]
