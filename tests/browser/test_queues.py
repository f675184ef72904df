"""The page of queues: one axis for the whole tree, limits, and usage beside shares."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.browser.conftest import Site
from tests.given import ask, job, node
from tests.support.small_workloads import arrives, work
from windlass.model.queues import Queue

HOUR = 3600


@pytest.fixture
def limited() -> Iterator[Site]:
    """Two queues of one share; one of them has used three times as much, and has a limit."""
    queues = (
        Queue("much", guarantee={"gpu": 4000}, limit={"gpu": 6000}),
        Queue("little", guarantee={"gpu": 4000}),
    )
    jobs = [
        arrives(job("wide", 1, ask(gpus=6), queue="much"), runs=2 * HOUR),
        arrives(job("small", 1, ask(gpus=2), queue="little"), runs=2 * HOUR),
        arrives(job("next", 1, ask(gpus=4), queue="much"), at=HOUR, runs=HOUR),
        arrives(job("later", 1, ask(gpus=4), queue="little"), at=HOUR, runs=HOUR),
    ]
    made = Site(work(*queues, node("n", 8), *jobs))
    made.play(HOUR)
    made.serve()
    yield made
    made.stop()


def row_of(page: Any, name: str) -> Any:
    return page.locator("table.queues tbody tr", has=page.get_by_role("button", name=name))


def middle(place: Any) -> float:
    box = place.bounding_box()
    return box["x"] + box["width"] / 2


def test_axis_numbers_are_above_their_lines(limited: Site, open_page: Any):
    page = open_page(f"{limited.address}#queues")
    numbers, lines = page.locator(".qaxis span"), row_of(page, "much").locator(".qb-grid")
    numbers.first.wait_for()
    assert numbers.all_inner_texts() == [str(gpus) for gpus in range(9)]
    for number, line in list(zip(numbers.all(), lines.all(), strict=True))[1:-1]:
        assert abs(middle(number) - middle(line)) < 2


def test_a_limit_is_drawn_as_a_bracket_at_its_place(limited: Site, open_page: Any):
    page = open_page(f"{limited.address}#queues")
    bracket = row_of(page, "much").locator(".qb-limit")
    bracket.wait_for()
    sixth = page.locator(".qaxis span").nth(6)
    assert abs(middle(bracket) - middle(sixth)) < 4
    assert row_of(page, "little").locator(".qb-limit").count() == 0
    assert "limit" in page.locator(".key").first.inner_text()


def test_usage_is_beside_the_share_of_a_queue(limited: Site, open_page: Any):
    """Of 8 GPUs one had 6 and the other 2 all the time; their shares are alike."""
    page = open_page(f"{limited.address}#queues")
    usage = [row_of(page, name).locator(".usage") for name in ("much", "little")]
    usage[0].wait_for()
    assert [each.inner_text().strip() for each in usage] == ["1.50×", "0.50×"]
    left, right = (middle(each.locator("circle")) for each in reversed(usage))
    assert left < middle(usage[0].locator(".one")) < right


@pytest.mark.parametrize("width", [1280, 1440])
def test_no_row_of_a_queue_wraps(shared_site: Site, open_page: Any, width: int):
    page = open_page(f"{shared_site.address}#queues", viewport={"width": width, "height": 800})
    rows = page.locator("table.queues tbody tr")
    rows.first.wait_for()
    assert {round(each.bounding_box()["height"]) for each in rows.all()} <= {32, 33, 34}
