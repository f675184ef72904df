"""HTTP endpoints of pods: requests are sent and polled, answers are reported."""

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
    endpoint = Endpoint("127.0.0.1", 0, "/checkpoint")
    yield endpoint
    endpoint.close()


@asynccontextmanager
async def polling() -> AsyncIterator[tuple[CheckpointEndpoints, list[Ack]]]:
    """Yield running endpoints, and the list of answers that they report."""
    answers: list[Ack] = []
    endpoints = CheckpointEndpoints(lambda _task, ack: answers.append(ack))
    task = asyncio.create_task(endpoints.run())
    try:
        yield endpoints, answers
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


async def test_a_request_is_sent_and_the_answer_is_reported(pod: Endpoint):
    async with polling() as (endpoints, answers):
        endpoints.ask(TASK, url(pod), REQUEST)
        await until(lambda: pod.request() == REQUEST, "the pod is asked")
        assert answers == []
        done = Ack("r1", SaveState.DONE, 5, at=1_000_000_000)
        pod.answer(done)
        await until(lambda: answers == [done], "its answer is heard")


async def test_an_answer_to_another_request_is_reported_and_the_request_is_sent_again(
    pod: Endpoint,
):
    async with polling() as (endpoints, answers):
        endpoints.ask(TASK, url(pod), REQUEST)
        await until(lambda: pod.request() == REQUEST, "the pod is asked")
        other = Ack("other", SaveState.DONE, 5, at=1_000_000_000)
        pod.answer(other)
        pod.withdraw("r1")  # as if the pod had been restarted
        await until(lambda: other in answers, "the other answer is told")
        await until(lambda: pod.request() == REQUEST, "the pod is asked again")


async def test_a_withdrawal_is_sent_to_the_endpoint(pod: Endpoint):
    async with polling() as (endpoints, answers):
        endpoints.ask(TASK, url(pod), REQUEST)
        await until(lambda: pod.request() == REQUEST, "the pod is asked")
        endpoints.withdraw(TASK, url(pod), "r1")
        await until(lambda: pod.request() is None, "the request is withdrawn")
        assert answers == []


async def test_a_request_is_retried_until_the_endpoint_listens(pod: Endpoint):
    address = url(pod)
    pod.close()
    async with polling() as (endpoints, _):
        endpoints.ask(TASK, address, REQUEST)
        await asyncio.sleep(0)
        late = Endpoint("127.0.0.1", pod.port, "/checkpoint")
        try:
            await until(lambda: late.request() == REQUEST, "the pod is asked")
        finally:
            late.close()
