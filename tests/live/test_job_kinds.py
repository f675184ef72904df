"""Jobs of every kind on a real control plane: whole, late, restarted, and with half their pods.

Each kind is played in a namespace of its own, all at once, before one daemon.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.live.support.definitions import FOREIGN, installed, plural
from tests.live.support.fake_controller import Troupe, open_troupe
from tests.live.support.job_kinds import RECIPES, SIZE, Recipe
from tests.live.support.scene import Scene, scene
from tests.live.support.slow_jobs import TRAPS
from windlass.crds.definitions import API_VERSION, QUEUE
from windlass.workloads.kinds.table import KINDS
from windlass_lab.api_proxy.faults import hold
from windlass_lab.api_proxy.proxy import Proxy
from windlass_lab.control_plane.plane import Plane

NODES = 10
Story = Callable[[Troupe, Recipe], Awaitable[None]]


@pytest.fixture(scope="module", autouse=True)
def kinds(plane: Plane) -> Iterator[None]:
    with installed(plane):
        yield


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=NODES) as made:
        yield made
        made.check()


async def test_a_job_of_every_kind_starts_whole(made: Scene) -> None:
    async def story(troupe: Troupe, recipe: Recipe) -> None:
        async with playing(troupe, recipe):
            await troupe.wait_running(recipe.count)
        if recipe.is_gang:
            await troupe.wait_event(f"{SIZE} pods start on ")

    await lead(made)
    await play_all(made, story)


async def test_a_job_of_every_kind_waits_for_an_owner_that_is_seen_late(made: Scene) -> None:
    """The watches of owners are held up: only pods are seen at first."""
    seen = asyncio.Event()

    async def story(troupe: Troupe, recipe: Recipe) -> None:
        async with playing(troupe, recipe):
            if recipe.is_read:
                await troupe.wait_some_told("has not been seen")
                assert not any(each["spec"].get("nodeName") for each in await troupe.pods())
            else:
                await troupe.wait_running(recipe.count)
            waiting.discard(troupe.namespace)
            if not waiting:
                seen.set()
            await troupe.wait_running(recipe.count)

    waiting = {f"{made.key}-{kind.lower()}" for kind in RECIPES}
    proxy = await made.open_proxy()
    await lead(made, proxy)
    for kind in (each.kind for each, row in KINDS.items() if row.path):
        proxy.on("watch", plural(kind), hold(seen))
    proxy.cut_watches()
    await play_all(made, story)


async def test_a_job_of_every_kind_runs_again_after_a_restart(made: Scene) -> None:
    async def story(troupe: Troupe, recipe: Recipe) -> None:
        async with playing(troupe, recipe):
            before = await troupe.wait_running(recipe.count)
        await recipe.again(troupe)
        await troupe.wait_others(recipe.count, before)

    await lead(made)
    await play_all(made, story)


async def test_a_job_of_every_kind_with_half_its_pods_missing_waits_for_them(made: Scene) -> None:
    """A quota lets only half of them be made at first."""
    half = SIZE // 2

    async def story(troupe: Troupe, recipe: Recipe) -> None:
        await troupe.allow(half)
        async with playing(troupe, recipe):
            if recipe.is_gang:
                # numbers that have changed since are told again after a minute
                await troupe.wait_told(half, f" of the {SIZE} tasks it starts with exist")
            else:
                await troupe.wait_running(half)
            await troupe.allow(100)
            await troupe.wait_running(recipe.count)

    await lead(made)
    await play_all(made, story)


async def test_pods_that_come_first_or_last_are_not_waited_for(made: Scene) -> None:
    async def story(troupe: Troupe, recipe: Recipe) -> None:
        await recipe.play(troupe)
        assert len(await troupe.wait_running(recipe.count)) == recipe.count

    await lead(made)
    await play_all(made, story, TRAPS)


def test_every_kind_that_is_read_is_played() -> None:
    # the same as the other training jobs; they stay away, as in clusters that have only some kinds
    unplayed = {"XGBoostJob", "JAXJob"}
    read = {key.kind for key, row in KINDS.items() if row.path}
    assert read - unplayed <= set(RECIPES)
    assert set(FOREIGN) <= set(RECIPES)


async def lead(made: Scene, proxy: Proxy | None = None) -> None:
    """A daemon for all pods that name the scene as their scheduler."""
    await made.leading(proxy, namespaces=None, scheduler_names=made.key)


async def play_all(made: Scene, story: Story, recipes: Mapping[str, Recipe] = RECIPES) -> None:
    """Play a story with every kind at once, in the queue that all their namespaces share."""
    names = [f"{made.key}-{kind.lower()}" for kind in recipes]
    spec = {"namespaces": names, "guarantee": {"gpu": 8 * NODES}}
    body = {"apiVersion": API_VERSION, "kind": "Queue", "spec": spec}
    await made.api.post(QUEUE.path(), body | {"metadata": {"name": made.key}})
    troupes = {kind: await open_troupe(made, kind) for kind in recipes}
    try:
        async with asyncio.TaskGroup() as group:
            for kind, recipe in recipes.items():
                group.create_task(_told(kind, story(troupes[kind], recipe)))
    finally:
        await made.api.delete(QUEUE.path(made.key))
        for name in names:
            await made.api.delete(f"/api/v1/namespaces/{name}")


async def _told(kind: str, story: Awaitable[None]) -> None:
    try:
        await story
    except Exception as error:
        raise AssertionError(f"{kind}: {error}") from error


@asynccontextmanager
async def playing(troupe: Troupe, recipe: Recipe) -> AsyncIterator[None]:
    """The kind's controller does its part meanwhile, and comes to its end."""
    task = asyncio.ensure_future(recipe.play(troupe))
    try:
        yield
        await task
    finally:
        task.cancel()
