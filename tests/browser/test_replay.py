"""The slider on Decisions reaches cycles older than the remembered ones if a record is kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import Site
from windlass.cli.demo_support.recording import recording
from windlass.sim.generate.week import EXAMPLE_SEED, generate
from windlass.web.documents import live_state
from windlass.web.feed import replay_source


@pytest.fixture
def kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Site]:
    """A recorded morning of which little is remembered, and windows of the record are small."""
    monkeypatch.setattr(live_state, "MOST_CYCLES", 40)
    monkeypatch.setattr("windlass.daemon.serving.replay_reader.MOST_CYCLES", 60)
    made = Site(generate(EXAMPLE_SEED, 24, 4))
    with ExitStack() as stack:
        stack.enter_context(recording(str(tmp_path / "day.db"), made.simulation, made.dashboard))
        made.play(9 * 3600)
    made.serve()  # the record is written to its end
    yield made
    made.stop()


def cycle_shown(page: Any) -> str:
    return page.locator(".cycle h2").inner_text()


def test_the_slider_reaches_into_the_record_and_back(kept: Site, open_page: Any):
    page = open_page(f"{kept.address}#decisions")
    slider = page.locator("#slider")
    slider.focus()
    page.keyboard.press("Home")  # past the oldest that is remembered
    expect(page.locator(".bar")).to_contain_text("recorded cycles")
    windows = 1
    while page.get_by_role("button", name="Earlier").count():
        before = page.url
        page.get_by_role("button", name="Earlier").click()
        page.wait_for_url(lambda url, old=before: url != old)
        page.locator(".cycle h2").wait_for()
        expect(page.locator(".bar")).to_contain_text("recorded cycles")
        windows += 1
    assert windows > 2
    slider.focus()
    page.keyboard.press("Home")
    expect(page.locator(".cycle h2")).to_have_text("Cycle 1")
    page.get_by_role("button", name="Live").click()
    expect(page.locator(".cycle h2")).to_have_text(f"Cycle {kept.simulation.cycles:,}")


def test_a_recorded_cycle_is_shown_as_recorded(kept: Site, open_page: Any):
    record = kept.dashboard.board.recorded
    assert record is not None
    window = record.window(None, kept.simulation.cluster.now)
    index = max(range(len(window.cycles.key)), key=lambda i: window.cycles.bound[i])
    key, at = window.cycles.key[index], window.cycles.at[index]
    told = record.cycle(key)
    assert told is not None
    page = open_page(f"{kept.address}#decisions/until-{at}%2F{key}")
    page.locator(".cycle .item").first.wait_for()
    assert cycle_shown(page) == f"Cycle {told.cycle:,}"
    gangs = page.locator(".cycle .item a").all_inner_texts()
    assert gangs == [each.gang for each in (*told.placed, *told.evicted, *told.held)]


def test_without_a_record_the_slider_offers_nothing_earlier(shared_site: Site, open_page: Any):
    page = open_page(f"{shared_site.address}#decisions")
    page.locator(".cycle h2").wait_for()
    assert page.get_by_role("button", name="Earlier").count() == 0
    assert page.locator("#slider").get_attribute("min") == "0"


def test_the_nodes_of_a_cycle_show_which_gpus_changed(shared_site: Site, open_page: Any):
    page = open_page(f"{shared_site.address}#decisions")
    page.locator(".cycles button").first.click()
    page.locator(".changed .nodes li").first.wait_for()
    number = int(page.url.rpartition("/")[2])
    told = page.evaluate(f"fetch('api/decisions/{number}').then(answer => answer.json())")
    shown = page.locator(".changed .nodes li").evaluate_all(
        """nodes => nodes.map(node => [
            node.querySelector(".mono").textContent,
            node.querySelectorAll(".gpu").length,
            [...node.querySelectorAll(".gpu i")].map(each => each.className).sort(),
        ])"""
    )
    expected = [
        [each["node"], each["gpus"], sorted(cell["what"] for cell in each["cells"])]
        for each in told["changed"]
    ]
    assert shown == expected
    assert replay_source.MOST_CYCLES == live_state.MOST_CYCLES == 600
