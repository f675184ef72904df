"""The scraper of DCGM exporters: readings are reported, answers are not trusted."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import pytest
from aiohttp import web

from windlass.kube.client import dcgm_scraper
from windlass.kube.client.dcgm_scraper import AT_ONCE, DcgmScraper
from windlass.kube.writes import GpuReadings
from windlass.workloads.nodes.dcgm import LONGEST, Exporter, Reading

PATIENCE_S = 20.0
GOOD = b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 42\n'
READING = Reading((420,))
Answer = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def served(answer: Answer) -> AsyncIterator[str]:
    """Serve on a free port of loopback."""
    runner = web.ServerRunner(web.Server(answer, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}/metrics"
    finally:
        await runner.cleanup()


@asynccontextmanager
async def scraping(*urls: str) -> AsyncIterator[tuple[DcgmScraper, list[GpuReadings]]]:
    """Yield a running scraper of these URLs, and the list of its reports."""
    reports: list[GpuReadings] = []
    exporters = DcgmScraper(reports.append, 0.05)
    exporters.ask([named(url, number) for number, url in enumerate(urls)])
    task = asyncio.create_task(exporters.run())
    try:
        yield exporters, reports
    finally:
        task.cancel()
        [ended] = await asyncio.gather(task, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), repr(ended)


def named(url: str, number: int) -> Exporter:
    return Exporter(f"n{number}", url, "gpu-operator", "", (f"uid-{number}", 0))


def nodes(reports: list[GpuReadings]) -> set[str]:
    return {exporter.node for report in reports for exporter, _ in report.readings}


async def wait_all(exporters: DcgmScraper) -> None:
    async with asyncio.timeout(PATIENCE_S):
        await exporters.heard_all.wait()


async def good(request: web.BaseRequest) -> web.Response:
    assert (request.method, request.path) == ("GET", "/metrics")
    assert "Authorization" not in request.headers
    return web.Response(body=GOOD)


async def silent(request: web.BaseRequest) -> web.Response:
    await asyncio.Event().wait()
    return web.Response()


async def huge(request: web.BaseRequest) -> web.StreamResponse:
    answer = web.StreamResponse()
    await answer.prepare(request)
    for _ in range(2 * LONGEST // len(GOOD)):
        await answer.write(GOOD)
    return answer


async def garbage(request: web.BaseRequest) -> web.Response:
    return web.Response(body=bytes(range(256)) * 100)


async def packed(request: web.BaseRequest) -> web.Response:
    return web.Response(body=b"\x1f\x8b" + GOOD, headers={"Content-Encoding": "gzip"})


async def broken(request: web.BaseRequest) -> web.Response:
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


async def refusing(request: web.BaseRequest) -> web.Response:
    return web.Response(body=GOOD, status=503)


async def test_an_exporter_is_read_periodically():
    async with served(good) as url, scraping(url) as (_, reports), asyncio.timeout(PATIENCE_S):
        while len(reports) < 3:
            await asyncio.sleep(0.01)
    assert {each.readings for each in reports} == {((named(url, 0), READING),)}


@pytest.mark.parametrize("bad", [silent, huge, garbage, packed, broken, refusing])
async def test_a_misbehaving_exporter_is_skipped_and_the_others_are_read(
    bad: Answer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(dcgm_scraper, "TIMEOUT_S", 1.0)
    async with (
        served(bad) as far,
        served(good) as near,
        scraping(far, near, "http://[not an address]:1/metrics") as (exporters, reports),
    ):
        await wait_all(exporters)
        assert nodes(reports) == {"n1"}


async def test_a_redirect_is_not_followed():
    async with served(good) as url:

        async def elsewhere(request: web.BaseRequest) -> web.Response:
            raise web.HTTPFound(url)

        async with served(elsewhere) as far, scraping(far) as (exporters, reports):
            await wait_all(exporters)
            assert reports == []


async def test_the_number_of_concurrent_requests_is_limited():
    running, most = 0, 0

    async def slow(request: web.BaseRequest) -> web.Response:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.05)
        running -= 1
        return web.Response(body=GOOD)

    async with served(slow) as url, scraping(*[url] * 3 * AT_ONCE) as (exporters, reports):
        await wait_all(exporters)
        assert most == AT_ONCE
        assert len(nodes(reports)) == 3 * AT_ONCE
        assert len(reports) < AT_ONCE  # each report may start a cycle


async def test_a_removed_exporter_is_no_longer_read():
    async with served(good) as url, scraping(url) as (exporters, reports):
        await wait_all(exporters)
        exporters.ask([])
        await asyncio.sleep(0.2)  # requests in flight may end
        count = len(reports)
        await asyncio.sleep(0.2)
        assert len(reports) == count
