"""Each page shows exactly what the engine's cluster and plan say."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from windlass.engine.plan import Verdict
from windlass.model.queues import GPU

PAGES = ("cluster", "queues", "jobs", "decisions")


def told(milli: int) -> str:
    """GPUs as the page writes them."""
    if milli == 0:
        return "–"
    half_up = (milli + 5) // 10 / 100
    return f"{half_up:,.2f}".rstrip("0").rstrip(".")


def figure(page: Any, name: str) -> str:
    return page.locator(".fig", has=page.get_by_text(name, exact=True)).inner_text()


def test_the_figures_are_those_of_the_cluster(shared_site: Site, open_page: Any):
    page = open_page(shared_site.address)
    cluster = shared_site.simulation.cluster
    used = sum(cluster.allocated(name, GPU) for name, q in cluster.queues.items() if not q.parent)
    page.locator(".fig").first.wait_for()
    assert f"{told(used)} of 192 GPUs" in figure(page, "Allocated")
    waiting = [each for each in shared_site.simulation.plan.decisions if each.position]
    assert f"{len(waiting)}" in figure(page, "Waiting")


def test_figures_are_shown_beside_their_past(shared_site: Site, open_page: Any):
    page = open_page(shared_site.address)
    page.locator(".fig").first.wait_for()
    for name in ("Allocated", "Running", "Waiting"):
        figure_of = page.locator(".fig", has=page.get_by_text(name, exact=True))
        assert figure_of.locator("svg.spark path").count() == 2, "a line and what is below it"
    past = page.evaluate("fetch('api/queues').then(answer => answer.json())")["past"]
    assert len(past["waiting"]) == len(past["running"]) == len(past["at"])


def test_the_link_to_jobs_shows_the_number_of_waiting_jobs(shared_site: Site, open_page: Any):
    page = open_page(f"{shared_site.address}#decisions")
    waiting = [each for each in shared_site.simulation.plan.decisions if each.position]
    link = page.get_by_role("link", name=f"Jobs {len(waiting)} waiting")
    link.wait_for()
    link.click()
    expect(page.get_by_role("heading", name="Jobs")).to_be_visible()
    assert waiting, "the busiest hour has a line"


def test_every_queue_has_its_numbers(shared_site: Site, open_page: Any):
    page = open_page(f"{shared_site.address}#queues")
    cluster, plan = shared_site.simulation.cluster, shared_site.simulation.plan
    page.locator("table.queues").wait_for()
    for name in cluster.queues:
        row = page.locator("table.queues tbody tr", has=page.get_by_role("button", name=name))
        shown = row.locator("td.r").all_inner_texts()
        expected = [cluster.allocated(name, GPU), plan.shares[name][GPU]]
        assert [shown[0], shown[2]] == [told(each) for each in expected]


def test_waiting_jobs_are_listed_in_order_with_reasons(shared_site: Site, open_page: Any):
    page = open_page(f"{shared_site.address}#jobs")
    page.locator("table.jobs").first.wait_for()
    rows = page.locator("table.jobs").first.locator("tbody tr")
    line = [e for e in shared_site.simulation.plan.decisions if e.verdict is Verdict.WAITS]
    line.sort(key=lambda each: each.position)
    assert rows.locator("a.subject").all_inner_texts() == [each.gang for each in line]
    assert rows.locator("td.why").all_inner_texts() == [str(each.reasons[0]) for each in line]


def test_a_cell_has_the_colour_of_its_queue(shared_site: Site, open_page: Any):
    """The pixel in the middle of a GPU that a task has whole."""
    page = open_page(shared_site.address, color_scheme="light")
    page.locator(".legend button").first.wait_for()
    colours = {
        row.locator("span").nth(1).inner_text(): row.locator(".sw").evaluate(
            "each => getComputedStyle(each).backgroundColor"
        )
        for row in page.locator(".legend button").all()
    }
    shown = page.evaluate("fetch('api/cluster').then(answer => answer.json())")
    given, whole = shown["given"], 1000
    row = next(i for i, milli in enumerate(given["milli"]) if milli == whole)
    gang = shown["tasks"]["gang"][given["task"][row]]
    queue = shown["queues"][shown["gangs"]["queue"][gang]]
    page.locator(".map canvas[role]").focus()
    for _ in range(given["gpu"][row] + 1):
        page.keyboard.press("ArrowRight")
    pixel = page.evaluate(
        """() => {
            const canvas = document.querySelector("canvas[role]");
            const cell = document.querySelector(".outline").getBoundingClientRect();
            const box = canvas.getBoundingClientRect();
            const x = cell.x + cell.width / 2 - box.x, y = cell.y + cell.height / 2 - box.y;
            const [r, g, b] = canvas.getContext("2d").getImageData(x, y, 1, 1).data;
            return `rgb(${r}, ${g}, ${b})`;
        }"""
    )
    assert pixel == colours[queue]


def test_the_table_equals_the_map(shared_site: Site, open_page: Any):
    page = open_page(shared_site.address)
    page.get_by_role("button", name="Table").click()
    rows = page.locator("tbody tr")
    assert rows.count() == len(shared_site.simulation.cluster.nodes)


def test_an_unknown_job_is_reported(shared_site: Site, open_page: Any):
    page = open_page(f"{shared_site.address}#jobs")
    page.locator("a.subject").first.click()
    page.locator(".drawer h3").first.wait_for()
    page.goto(f"{shared_site.address}#jobs/nobody")
    page.get_by_text("No gang of that name is known here").wait_for()
    assert page.locator(".drawer h3").count() == 0, "nothing is left of the one before"


def test_the_slider_moves_through_the_past(shared_site: Site, open_page: Any):
    page = open_page(f"{shared_site.address}#decisions")
    title = page.locator(".cycle h2")
    title.wait_for()
    now = shared_site.simulation.cycles
    assert title.inner_text() == f"Cycle {now:,}"
    page.locator("#slider").focus()
    page.keyboard.press("ArrowLeft")
    page.get_by_text(f"Cycle {now - 1:,}", exact=True).wait_for()
    assert page.url.endswith(f"#decisions/{now - 1}")
    page.get_by_role("button", name="Live").click()
    page.get_by_text(f"Cycle {now:,}", exact=True).wait_for()


def test_on_a_phone_a_job_is_below_the_bar(shared_site: Site, open_page: Any):
    gang = next(each.gang for each in shared_site.simulation.plan.decisions if each.position)
    page = open_page(f"{shared_site.address}#jobs/{gang}", viewport={"width": 400, "height": 800})
    close = page.get_by_role("button", name="Close")
    close.click()  # nothing covers it
    page.locator(".drawer").wait_for(state="detached")
    assert page.locator(".drawer").count() == 0


@pytest.mark.parametrize("width", [400, 1440, 2560])
@pytest.mark.parametrize("name", PAGES)
def test_no_page_scrolls_sideways(shared_site: Site, open_page: Any, name: str, width: int):
    size = {"width": width, "height": 900}
    page = open_page(f"{shared_site.address}#{name}", viewport=size)
    page.locator("h1").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= width
