"""The page of a live scheduler in a real browser: the way in, what one may see, and a restart."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from playwright.async_api import Page, async_playwright

from tests.live.support.viewers import Person
from tests.live.test_dashboard import Cast, address_of, cast, people
from windlass.web.server.app import STATIC

__all__ = ["cast", "people"]
NAMES = ("chromium", "chromium-browser", "google-chrome")
Require = Callable[[Any, str], Any]
BY_THE_BROWSER = ("ERR_CONNECTION_REFUSED", "status of 401", "status of 503", "ERR_INCOMPLETE")
"""What it reports of a server that refuses or is away; the page is not to blame."""


@pytest.fixture
async def page(require: Require) -> AsyncIterator[Page]:
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    program = require(found, "The tests of the dashboard need Chromium, which is not in PATH.")
    built = STATIC / "index.html"
    require(built.is_file(), "The dashboard is not built; `make ui` does it where Node 20 is.")
    troubles: list[str] = []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--disable-gpu"]
        )
        opened = await browser.new_page()
        opened.on("pageerror", lambda error: troubles.append(str(error)))
        opened.on("console", lambda said: _note(said.type, said.text, troubles))
        yield opened
        await browser.close()
    assert troubles == []


def _note(kind: str, text: str, troubles: list[str]) -> None:
    if kind == "error" and not any(each in text for each in BY_THE_BROWSER):
        troubles.append(text)


async def sign_in(page: Page, token: str) -> None:
    await page.get_by_label("Token").fill(token)
    await page.get_by_role("button", name="Sign in").click()


async def jobs_on(page: Page) -> set[str]:
    names = await page.locator("a.subject").all_inner_texts()
    return {each.strip().partition("~")[0] for each in names}


async def test_a_viewer_signs_in_sees_what_they_may_and_comes_back_after_a_restart(
    cast: Cast, people: dict[str, Person], page: Page
) -> None:
    key = cast.scene.key
    await cast.scene.gang("train", 1, 8, "ours")
    await cast.scene.job("next", 2, 8, "ours")
    await cast.other_pod("serve", 8)
    await cast.scene.wait_running(("train", 1))
    await page.goto(f"{cast.address}/#jobs")
    await sign_in(page, "nonsense")
    await page.get_by_text("The API server does not accept this token").wait_for()
    assert await page.locator("table").count() == 0

    ann = await people["ann"].token()
    await sign_in(page, ann)
    await page.locator("a.subject", has_text=f"{key}/train").wait_for()
    assert await jobs_on(page) == {f"{key}/train", f"{key}/next"}
    assert "windlass_session" not in await page.evaluate("document.cookie")
    assert cast.other not in await page.content()
    await page.get_by_text("Live", exact=True).wait_for()

    await cast.scene.delete("train-0")
    is_over = lambda jobs: [e["gang"] for e in jobs["finished"]] == [f"{key}/train"]  # noqa: E731
    await cast.wait_told(ann, "jobs", is_over, "the job that was deleted has ended")
    finished = page.locator(".panel", has_text="Finished")
    await finished.locator("a.subject", has_text=f"{key}/train").wait_for()

    port = int(address_of(cast.daemon).rpartition(":")[2])
    assert await cast.daemon.stop() == 0
    await page.get_by_text("Reconnecting").wait_for()
    cast.daemon = await cast.scene.leading(
        namespaces=None, config=cast.settings, dashboard_port=port
    )
    await page.get_by_label("Token").wait_for()
    await sign_in(page, ann)
    await page.locator("a.subject", has_text=f"{key}/next").wait_for()
    assert all(each.startswith(f"{key}/") for each in await jobs_on(page))

    await page.get_by_role("button", name="Sign out").click()
    await page.get_by_label("Token").wait_for()
    assert await page.locator("table").count() == 0
