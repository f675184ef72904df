"""CheckpointEndpoints of pods: told at once, asked how far they are, and not trusted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest

from windlass.checkpoint.endpoint import Endpoint
from windlass.checkpoint.protocol import Ack, CheckpointRequest, SaveState
from windlass.kube.writers.checkpoint_http import CheckpointEndpoints
from windlass.model.jobs import TaskId

TASK = TaskId("ml/a/1")
REQUEST = CheckpointRequest("r1", 2_000_000_000, "room")
PATIENCE_S = 20.0


@pytest.fixture
def pod() -> Iterator[Endpoint]:
    made = Endpoint("127.0.0.1", 0, "/checkpoint")
    yield made
    made.close()


@asynccontextmanager
async def asking() -> AsyncIterator[tuple[CheckpointEndpoints, list[Ack]]]:
    """What asks, and the answers that it reported."""
    heard: list[Ack] = []
    endpoints = CheckpointEndpoints(lambda _task, ack: heard.append(ack))
    task = asyncio.create_task(endpoints.run())
    try:
        yield endpoints, heard
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def until(holds: Callable[[], bool], what: str) -> None:
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not holds():
                await asyncio.sleep(0.01)
    except TimeoutError:
        raise AssertionError(f"waited in vain until {what}") from None


def url(pod: Endpoint) -> str:
    return f"http://127.0.0.1:{pod.port}/checkpoint"


async def test_a_pod_is_asked_and_its_answer_is_heard_once_it_is_there(pod: Endpoint):
    async with asking() as (endpoints, heard):
        endpoints.ask(TASK, url(pod), REQUEST)
        await until(lambda: pod.request() == REQUEST, "the pod is asked")
        assert heard == []
        done = Ack("r1", SaveState.DONE, 5, at=1_000_000_000)
        pod.answer(done)
        await until(lambda: heard == [done], "its answer is heard")


async def test_an_answer_to_another_request_is_told_and_the_pod_asked_again(pod: Endpoint):
    async with asking() as (endpoints, heard):
        endpoints.ask(TASK, url(pod), REQUEST)
        await until(lambda: pod.request() == REQUEST, "the pod is asked")
        other = Ack("other", SaveState.DONE, 5, at=1_000_000_000)
        pod.answer(other)
        pod.withdrawn("r1")  # as if it had been started anew
        await until(lambda: other in heard, "the other answer is told")
        await until(lambda: pod.request() == REQUEST, "the pod is asked again")


async def test_a_request_that_is_void_is_withdrawn(pod: Endpoint):
    async with asking() as (endpoints, heard):
        endpoints.ask(TASK, url(pod), REQUEST)
        await until(lambda: pod.request() == REQUEST, "the pod is asked")
        endpoints.withdraw(TASK, url(pod), "r1")
        await until(lambda: pod.request() is None, "the request is withdrawn")
        assert heard == []


async def test_a_pod_that_listens_late_is_asked_once_it_does(pod: Endpoint):
    where = url(pod)
    pod.close()
    async with asking() as (endpoints, _):
        endpoints.ask(TASK, where, REQUEST)
        await asyncio.sleep(0)
        late = Endpoint("127.0.0.1", pod.port, "/checkpoint")
        try:
            await until(lambda: late.request() == REQUEST, "the pod is asked")
        finally:
            late.close()
