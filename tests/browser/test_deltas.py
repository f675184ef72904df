"""A page that applies deltas shows what a new page shows; long lists and small cells do too."""

from __future__ import annotations

import json
import os
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.browser.conftest import Site, assert_same_picture
from tests.browser.large_cluster import Large
from tests.browser.test_pages import told
from windlass.model.queues import GPU, guaranteed
from windlass.web.documents.live_state import LiveState
from windlass.web.feed.view import ViewExtras
from windlass.web.server.local_server import run_local_server

MANY = 100_000 if os.environ.get("WINDLASS_PROOF") == "1" else 5_000
Serve = Callable[..., str]


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serves a large cluster, or rather a small one of that kind."""
    with ExitStack() as servers:

        def begin(there: Large, **beside: Any) -> str:
            board = LiveState("run", played=True)
            board.note(there.cluster, there.plan)
            board.show(there.cluster, there.plan, ViewExtras(**beside))
            return servers.enter_context(run_local_server(board, 0))

        yield begin


def test_a_page_that_applied_deltas_equals_a_new_page(site: Site, open_page: Any):
    followed = open_page(site.address)
    followed.locator("canvas[data-version]").wait_for()
    for minute in range(5, 60, 5):
        site.play(9 * 3600 + 60 * minute)
    assert site.dashboard.board.stamp is not None
    anew = open_page(site.address)
    assert_same_picture(followed, anew, site.dashboard.board.stamp.version)


def test_a_cell_leads_to_its_pod(site: Site, open_page: Any):
    page = open_page(site.address)
    shown = page.evaluate("fetch('api/cluster').then(answer => answer.json())")
    row = shown["given"]["gpu"].index(min(shown["given"]["gpu"]))
    pod = shown["tasks"]["name"][shown["given"]["task"][row]]
    page.locator(".map canvas[role]").focus()
    for _ in range(shown["given"]["gpu"][row] + 1):
        page.keyboard.press("ArrowRight")
    assert page.locator(".card").get_by_text(pod, exact=True).is_visible()
    page.keyboard.press("Enter")
    there = page.locator(".pods li[aria-current]")
    there.wait_for()
    assert pod in there.inner_text()
    assert site.simulation.cluster.tasks[pod].node in there.inner_text()


def test_flows_add_up_to_the_borrowed_amounts(shared_site: Site, open_page: Any):
    page = open_page(f"{shared_site.address}#queues")
    page.locator(".flow").wait_for()
    cluster = shared_site.simulation.cluster
    leaves = [queue for name, queue in cluster.queues.items() if cluster.is_leaf(name)]
    beyond = {
        each.name: cluster.allocated(each.name, GPU) - guaranteed(each, GPU) for each in leaves
    }
    texts = page.locator(".flow text").all_text_contents()
    borrowers = {name: milli for name, milli in beyond.items() if milli > 0}
    assert borrowers
    for name, milli in borrowers.items():
        assert f"{told(milli)} {name}" in texts


def test_a_long_list_scrolls_to_its_end_and_is_sent_in_small_parts(serve: Serve, open_page: Any):
    address = serve(Large(nodes=4, waiting=MANY))
    page = open_page(f"{address}#jobs")
    page.get_by_text(f"{MANY:,} gangs", exact=True).wait_for()
    window = page.locator(".window").first
    window.evaluate("each => each.scrollTo(0, each.scrollHeight)")
    last = page.get_by_text(f"wait-{MANY - 1:06}", exact=True)
    last.wait_for()
    assert last.is_visible()
    assert page.locator("table.jobs").first.locator("a.subject").count() <= 100
    with urllib.request.urlopen(f"{address}api/jobs?count={MANY}", timeout=30) as answer:
        shown = json.load(answer)
    assert (len(shown["waiting"]), shown["waiting_in_all"]) == (200, MANY)


def test_utilisation_is_shown_where_measured_and_else_marked_unknown(serve: Serve, open_page: Any):
    there = Large(nodes=2, waiting=0)
    measured = {there.nodes[0].name: [0, 100, 900, 900, 900, 900, 900, 900]}
    pages = [open_page(serve(there, utilisation=each)) for each in ({}, measured)]
    said = []
    for page in pages:
        page.get_by_role("button", name="Utilisation").click()
        said.append(page.locator(".legend").inner_text().split("\n"))
    assert said[0] == ["not measured", "16"]
    assert dict(zip(said[1][::2], said[1][1::2], strict=True)) == {
        "below 17 %": "1",
        "above 83 %": "6",
        "allocated but idle": "1",
        "not measured": "8",
    }
    assert "Nothing here measures" in pages[0].locator(".rail").inner_text()
