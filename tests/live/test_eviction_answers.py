"""What follows from the answers to an eviction: only a server that works otherwise denies one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from tests.live.support.fake_api_server import served, status
from windlass.kube.client.client import connect
from windlass.kube.client.errors import ServerFault
from windlass.kube.refs import PodRef
from windlass.kube.writers.eviction_api import MOST_FAULTS, Denied, EvictionApi
from windlass.model.jobs import TaskId

POD = PodRef(TaskId("t"), "ns", "p", "uid")
GRACE_S = 5
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not"

Answer = Callable[[], web.Response]


def fault() -> web.Response:
    return status(500, "InternalError")


def there() -> web.Response:
    return web.json_response({"metadata": {"name": "p", "uid": "uid"}})


def several_budgets() -> web.Response:
    return web.json_response({"kind": "Status", "code": 500, "message": SEVERAL}, status=500)


@asynccontextmanager
async def answering(write: Answer, read: Answer) -> AsyncIterator[EvictionApi]:
    """Evictions by a server that answers writes and reads so."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return read() if request.method == "GET" else write()

    async with served(handle) as access, connect(access) as api:
        yield EvictionApi(api)


async def test_faults_of_the_eviction_api_alone_deny_the_eviction_in_the_end() -> None:
    async with answering(fault, there) as evictions:
        assert await outcome(lambda: evictions.ask(POD, GRACE_S)) == (MOST_FAULTS, "it is Internal")


async def test_faults_of_a_deletion_end_in_the_same_way() -> None:
    async with answering(fault, there) as evictions:
        assert await outcome(lambda: evictions.delete(POD, GRACE_S)) == (
            MOST_FAULTS,
            "it is Internal",
        )


async def test_a_server_that_fails_at_everything_denies_nothing() -> None:
    async with answering(fault, fault) as evictions:
        for _ in range(3 * MOST_FAULTS):
            with pytest.raises(ServerFault):
                await evictions.ask(POD, GRACE_S)


async def test_faults_that_pass_are_not_added_up() -> None:
    answers = [*[fault] * (MOST_FAULTS - 1), there] * 2

    def next_one() -> web.Response:
        return answers.pop(0)()

    async with answering(next_one, there) as evictions:
        for _ in range(2):
            for _ in range(MOST_FAULTS - 1):
                with pytest.raises(ServerFault):
                    await evictions.ask(POD, GRACE_S)
            await evictions.ask(POD, GRACE_S)
    assert answers == []


async def test_several_budgets_deny_an_eviction_at_once() -> None:
    async with answering(several_budgets, there) as evictions:
        with pytest.raises(Denied) as found:
            await evictions.ask(POD, GRACE_S)
    assert found.value.by_budget


async def outcome(ask: Callable[[], Awaitable[None]]) -> tuple[int, str]:
    """How often it was asked until it was denied, and why."""
    for times in range(1, 3 * MOST_FAULTS):
        try:
            await ask()
        except ServerFault:
            continue
        except Denied as denied:
            return times, denied.why[:14]
    raise AssertionError("it was never denied")
