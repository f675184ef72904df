"""The pictures of docs/guides/dashboard.md; WINDLASS_PICTURES=1 takes them anew."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Site
from windlass.engine.suggestions.suggest import suggest
from windlass.web.feed.view import bounded_etas

PICTURES = Path(__file__).parents[2] / "docs/pictures"
SIZE = {"width": 1280, "height": 760}
TALLER = {"jobs": {"height": 900}}
"""The time at which the expected start is in the picture."""
IN_VIEW = 10
"""The number of rows of waiting jobs in the picture."""
SCHEMES = {"cluster": "light", "queues": "light", "jobs": "dark", "decisions": "light"}


@pytest.mark.parametrize("name", SCHEMES)
def test_the_guide_has_a_picture_of_every_page(
    shared_site: Site, open_page: Any, tmp_path: Path, name: str
):
    size = SIZE | TALLER.get(name, {})
    address = f"{shared_site.address}#{name}/"
    page = open_page(address, viewport=size, color_scheme=SCHEMES[name])
    if name == "jobs":
        shared_site.forecast(page)
    page.goto(f"{address}{chosen(shared_site, name)}")
    page.locator("h1").wait_for()
    page.get_by_text("Live", exact=True).first.wait_for()
    page.locator(".drawer, .cycle h2, .chart canvas, .map canvas[role]").first.wait_for()
    if name == "jobs":
        page.locator(".drawer .expected").wait_for()
        page.locator(".starts li").first.wait_for()
    if name == "cluster":
        page.locator(".map canvas[role]").hover(position={"x": 700, "y": 110})
        page.locator(".card").wait_for()
    taken(page, name, tmp_path)
    assert size_of(PICTURES / f"dashboard-{name}.png") == (size["width"], size["height"])


def taken(page: Any, name: str, elsewhere: Path) -> None:
    """For the guide if that is wanted, else only to see that it can be taken."""
    anew = os.environ.get("WINDLASS_PICTURES") == "1"
    path = (PICTURES if anew else elsewhere) / f"dashboard-{name}.png"
    page.screenshot(path=path, animations="disabled")


def chosen(site: Site, name: str) -> str:
    """Of the first in line whose start can be told, the one that most changes would start; the
    cycle that evicted most."""
    if name == "jobs":
        assert site.expected is not None
        here, line = site.simulation.cluster.snapshot(), site.simulation.plan.decisions
        first = [each.gang for each in line if 0 < each.position <= IN_VIEW]
        first = [gang for gang in first if gang in bounded_etas(site.expected.etas)]
        return max(first, key=lambda gang: len(suggest(here, gang).suggestions))
    if name == "decisions":
        return f"{max(site.dashboard.board.cycles(), key=lambda each: each.evicted).cycle}"
    return ""


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height, as the head of a PNG says them."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height
