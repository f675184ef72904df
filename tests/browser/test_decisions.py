"""The rail of a cycle: shares before and after it, and the reasons of waiting gangs."""

from __future__ import annotations

from typing import Any

from tests.browser.conftest import Site
from tests.browser.test_pages import told


def cycle_that_evicted(site: Site) -> int:
    return max(site.dashboard.board.cycles(), key=lambda each: each.evicted).cycle


def test_the_rail_shows_top_queues_before_and_after(shared_site: Site, open_page: Any):
    number = cycle_that_evicted(shared_site)
    page = open_page(f"{shared_site.address}#decisions/{number}")
    rows = page.locator(".shares li")
    rows.first.wait_for()
    document = page.evaluate(f"fetch('api/decisions/{number}').then(answer => answer.json())")
    cluster = shared_site.simulation.cluster
    assert [e["queue"] for e in document["shares"]] == [
        name for name, queue in cluster.queues.items() if not queue.parent
    ]
    assert any(each["after"] < each["before"] for each in document["shares"])
    for row, each in zip(rows.all(), document["shares"], strict=True):
        said = row.get_attribute("aria-label")
        assert f"{told(each['before'])} GPUs before, {told(each['after'])} GPUs after" in said
        assert row.locator("b").inner_text() == told(each["after"])


def test_the_rail_shows_the_reasons_of_waiting_gangs(shared_site: Site, open_page: Any):
    number = cycle_that_evicted(shared_site)
    page = open_page(f"{shared_site.address}#decisions/{number}")
    page.locator(".whys li").first.wait_for()
    document = page.evaluate(f"fetch('api/decisions/{number}').then(answer => answer.json())")
    counts = page.locator(".whys li .r").all_inner_texts()
    assert counts == [str(each["gangs"]) for each in document["waiting"]]


def test_a_cycle_in_the_list_names_its_gangs(shared_site: Site, open_page: Any):
    page = open_page(f"{shared_site.address}#decisions")
    row = page.locator(".cycles button").first
    row.click()
    gangs = page.locator(".cycle .item a")
    gangs.first.wait_for()
    first = list(dict.fromkeys(gangs.all_inner_texts()))
    expected = ", ".join(first[:2]) + (", …" if len(first) > 2 else "")
    assert row.locator(".names").inner_text() == expected


def test_the_strip_has_a_legend_for_its_directions(shared_site: Site, open_page: Any):
    page = open_page(f"{shared_site.address}#decisions")
    page.locator(".strip").wait_for()
    assert page.locator(".sides span").all_inner_texts() == ["bound", "evicted"]
