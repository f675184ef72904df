"""The pictures of docs/guides/dashboard.md; WINDLASS_PICTURES=1 takes them anew."""

from __future__ import annotations

import os
import struct
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Site

PICTURES = Path(__file__).parents[2] / "docs/pictures"
SIZE = {"width": 1280, "height": 760}
SCHEMES = {"cluster": "light", "queues": "light", "jobs": "dark", "decisions": "light"}


@pytest.mark.parametrize("name", SCHEMES)
def test_the_guide_has_a_picture_of_every_page(
    shared_site: Site, open_page: Any, tmp_path: Path, name: str
):
    page = open_page(
        f"{shared_site.address}#{name}{chosen(shared_site, name)}",
        viewport=SIZE,
        color_scheme=SCHEMES[name],
    )
    page.locator("h1").wait_for()
    page.get_by_text("Live", exact=True).first.wait_for()
    page.locator(".drawer, .cycle h2, .chart canvas, .map canvas[role]").first.wait_for()
    if name == "cluster":
        page.locator(".map canvas[role]").hover(position={"x": 700, "y": 110})
        page.locator(".card").wait_for()
    taken(page, name, tmp_path)
    assert size_of(PICTURES / f"dashboard-{name}.png") == (SIZE["width"], SIZE["height"])


def taken(page: Any, name: str, elsewhere: Path) -> None:
    """For the guide if that is wanted, else only to see that it can be taken."""
    anew = os.environ.get("WINDLASS_PICTURES") == "1"
    path = (PICTURES if anew else elsewhere) / f"dashboard-{name}.png"
    page.screenshot(path=path, animations="disabled")


def chosen(site: Site, name: str) -> str:
    """The gang that waits longest; the cycle that displaced most."""
    if name == "jobs":
        gangs = site.simulation.cluster.gangs
        line = (each.gang for each in site.simulation.plan.decisions if each.position)
        return f"/{min(line, key=lambda gang: gangs[gang].created_at)}"
    if name == "decisions":
        return f"/{max(site.dashboard.board.cycles(), key=lambda each: each.evicted).cycle}"
    return ""


def size_of(picture: Path) -> tuple[int, int]:
    """Width and height, as the head of a PNG says them."""
    width, height = struct.unpack(">II", picture.read_bytes()[16:24])
    return width, height
