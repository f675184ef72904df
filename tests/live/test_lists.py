"""A list that is read once is whole, in however many pages it comes."""

from __future__ import annotations

import pytest
from aiohttp import web

from tests.live.support.fake_api_server import Stage, Thing, served
from windlass.kube.client import client as lists
from windlass.kube.client.client import connect, list_all

PATH = "/api/v1/configmaps"


@pytest.fixture
async def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    """Three objects, and pages of one."""
    monkeypatch.setattr(lists, "PAGE", "1")
    stage = Stage()
    for name in ("a", "b", "c"):
        await stage.put(name)
    return stage


async def names(stage: Stage) -> list[str]:
    async with served(stage.handle) as access, connect(access) as api:
        return [each.metadata.name for each in await list_all(api, PATH, Thing)]


async def test_all_pages_are_read(stage: Stage) -> None:
    assert await names(stage) == ["a", "b", "c"]
    assert len(stage.asked) == 3


async def test_pages_that_are_no_longer_kept_are_read_again_as_a_whole(stage: Stage) -> None:
    def forget(asked: dict[str, str]) -> web.StreamResponse | None:
        if "continue" in asked:
            stage.kept_from = 10**9
        return None

    stage.before = forget
    assert await names(stage) == ["a", "b", "c"]
    assert stage.asked[-1] == {}


async def test_what_cannot_be_read_is_left_out(stage: Stage) -> None:
    await stage.put("b", metadata={"name": 7})
    assert await names(stage) == ["a", "c"]
