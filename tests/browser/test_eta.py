"""A waiting job on the embedded cluster shows its expected start."""

from __future__ import annotations

from contextlib import closing
from typing import Any

from playwright.sync_api import expect

from tests.browser.conftest import Site
from tests.given import ask, job, node
from tests.support.small_workloads import arrives, work
from windlass.cli.demo_support.background_eta import BackgroundEta

ONE = ask(gpus=1)


def test_a_waiting_job_shows_its_expected_start(open_page: Any):
    first = arrives(job("first", 1, ONE, duration_s=1200), runs=1200)
    second = arrives(job("second", 1, ONE), at=60, runs=600)
    with closing(BackgroundEta()) as expected:
        site = Site(work(node("n", 1), first, second), expected)
        site.play(100)
        assert expected.etas == {}, "nobody looks yet, so nothing is forecast"
        site.serve()
        page = open_page(f"{site.address}#jobs")
        page.locator("table.jobs").first.wait_for()
        site.forecast(page)
        eta = next(iter(expected.etas.values()))
        assert eta.at is not None
        assert 300 < eta.at < 4000, "about when the first one ends"
        expect(page.locator("svg.eta").first).to_be_visible()
        page.get_by_role("link", name="second").click()
        drawer = page.locator(".drawer")
        expect(drawer.locator(".expected b")).to_contain_text("Mon 00:")
        expect(drawer).to_contain_text("8 of 10 times between Mon 00:")
        band, axis = drawer.locator(".band"), drawer.locator(".band-at-large")
        middle = drawer.locator(".median").bounding_box()
        for inner, outer in ((middle, band.bounding_box()), (middle, axis.bounding_box())):
            assert outer["x"] - 1 <= inner["x"] <= outer["x"] + outer["width"] + 1
        chips = drawer.locator(".chips li").all_inner_texts()
        assert chips == ["Position 1 of 1", "1 GPU", "Waits 0 s"]
    site.stop()
