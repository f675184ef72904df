"""Every answer, and every lack of one, becomes the error that says what is known."""

import asyncio
import socket
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace

import msgspec
import pytest
from aiohttp import web

from tests.live.support.fake_api_server import no_credentials, served, status, until
from windlass.kube.client import errors
from windlass.kube.client.auth import Access
from windlass.kube.client.client import Api, Patch, connect

PATH = "/api/v1/namespaces/ns/pods/p"


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (400, errors.Invalid),
        (401, errors.Unauthorized),
        (403, errors.Forbidden),
        (404, errors.NotFound),
        (409, errors.Conflict),
        (410, errors.ResourceExpired),
        (422, errors.Invalid),
        (429, errors.TooMany),
        (500, errors.ServerFault),
        (503, errors.ServerFault),
    ],
)
async def test_a_refusal_is_told_by_its_kind(code: int, kind: type[errors.ApiError]) -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        return status(code, "SomeReason", causes=[{"reason": "DisruptionBudget"}])

    async with served(handle) as access, connect(access) as api:
        with pytest.raises(kind) as caught:
            await api.get(PATH)
    error = caught.value
    assert (error.status, error.reason, error.message) == (code, "SomeReason", "it is SomeReason")
    assert error.causes == ("DisruptionBudget",)


async def test_the_wish_to_be_asked_later_is_kept() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        answer = status(429, "TooManyRequests", retryAfterSeconds=9)
        if request.method == "GET":
            answer.headers["Retry-After"] = "2"
        return answer

    async with served(handle) as access, connect(access) as api:
        with pytest.raises(errors.TooMany) as by_header:
            await api.get(PATH)
        with pytest.raises(errors.TooMany) as by_body:
            await api.post(PATH, {})
    assert (by_header.value.retry_after_s, by_body.value.retry_after_s) == (2.0, 9.0)


async def test_a_proxys_page_is_quoted_and_a_redirect_is_not_followed() -> None:
    async def handle(request: web.BaseRequest) -> web.Response:
        if request.method == "GET":
            return web.Response(status=502, text="<h1>Bad\n gateway</h1>")
        return web.Response(status=307, headers={"Location": "https://elsewhere/login"})

    async with served(handle) as access, connect(access) as api:
        with pytest.raises(errors.ServerFault, match="<h1>Bad gateway</h1>"):
            await api.get(PATH)
        with pytest.raises(errors.ApiError, match="sends us on to https://elsewhere/login"):
            await api.put(PATH, {})


async def test_bodies_are_json_in_the_dialect_of_the_verb() -> None:
    class Body(msgspec.Struct, rename="camel"):
        host_name: str

    got: list[tuple[str, str, bytes, str]] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        kind = request.headers.get("Content-Type", "")
        got.append((request.method, kind, await request.read(), request.query_string))
        return web.Response(body=b'{"kind":"Status"}')

    async with served(handle) as access, connect(access) as api:
        assert await api.post(PATH, Body("n1")) == b'{"kind":"Status"}'
        await api.patch(PATH, b"[]", kind=Patch.JSON)
        await api.patch(PATH, {"a": 1}, kind=Patch.APPLY, params={"fieldManager": "windlass"})
        await api.delete(PATH, {"gracePeriodSeconds": 0})
        await api.get(PATH, {"labelSelector": "a in (b,c)"})
    assert got == [
        ("POST", "application/json", b'{"hostName":"n1"}', ""),
        ("PATCH", "application/json-patch+json", b"[]", ""),
        ("PATCH", "application/apply-patch+yaml", b'{"a":1}', "fieldManager=windlass"),
        ("DELETE", "application/json", b'{"gracePeriodSeconds":0}', ""),
        ("GET", "", b"", "labelSelector=a in (b,c)"),
    ]


WRITES: list[Callable[[Api], Awaitable[bytes]]] = [
    lambda api: api.post(PATH, {}),
    lambda api: api.put(PATH, {}),
    lambda api: api.patch(PATH, {}),
    lambda api: api.delete(PATH),
]


@pytest.mark.parametrize("write", WRITES)
async def test_a_write_whose_connection_breaks_is_sent_once_and_may_have_happened(
    write: Callable[[Api], Awaitable[bytes]],
) -> None:
    got: list[str] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        got.append(request.method)
        if request.method != "GET":
            request.transport.abort()  # type: ignore[union-attr]
        return web.Response(body=b"{}")

    async with served(handle) as access, connect(access) as api:
        await api.get(PATH)  # so that the write goes over a connection that is kept alive
        with pytest.raises(errors.Unanswered) as caught:
            await write(api)
    assert caught.value.sent
    assert len(got) == 2


async def test_an_answer_that_breaks_off_counts_as_none() -> None:
    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Length": "100"})
        await answer.prepare(request)
        await answer.write(b'{"kind":')
        request.transport.close()  # type: ignore[union-attr]
        return answer

    async with served(handle) as access, connect(access) as api:
        with pytest.raises(errors.Unanswered) as caught:
            await api.post(PATH, {})
    assert caught.value.sent


async def test_a_refused_connection_carried_nothing() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        access = Access(f"http://127.0.0.1:{closed.getsockname()[1]}", None, no_credentials)
        async with connect(access) as api:
            with pytest.raises(errors.Unanswered) as caught:
                await api.post(PATH, {})
    assert not caught.value.sent


async def test_a_write_that_is_not_answered_in_time_may_have_happened() -> None:
    got: list[str] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        got.append(request.method)
        await asyncio.Event().wait()
        return web.Response(body=b"{}")

    async with served(handle) as access, connect(access) as api:
        with pytest.raises(errors.Unanswered, match=r"PUT /api.* within 0.2 s") as caught:
            await api.put(PATH, {}, timeout_s=0.2)
    assert caught.value.sent
    assert got == ["PUT"]


async def test_the_wait_for_a_slot_is_no_part_of_the_time_that_an_answer_may_take() -> None:
    release = asyncio.Event()
    got: list[str] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        got.append(request.method)
        if request.method == "POST":
            await release.wait()
        return web.Response(body=b"{}")

    async with served(handle) as access, connect(access, connections=1) as api:
        first = asyncio.create_task(api.post(PATH, {}))
        await until(lambda: got, "the first was at the server")
        second = asyncio.create_task(api.get(PATH, timeout_s=0.2))
        done, _ = await asyncio.wait([second], timeout=0.5)
        assert not done
        release.set()
        assert await asyncio.gather(first, second) == [b"{}", b"{}"]


async def test_a_connection_that_does_not_come_about_in_time_carried_nothing() -> None:
    async def say_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()  # the client gives up
        writer.close()
        with suppress(OSError):
            await writer.wait_closed()
        given_up.set()

    given_up = asyncio.Event()
    server = await asyncio.start_server(say_nothing, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    access = Access(f"https://127.0.0.1:{port}", ssl.create_default_context(), no_credentials)
    async with server, connect(access, timeout_s=0.2) as api:
        with pytest.raises(errors.Unanswered) as caught:
            await api.post(PATH, {})
        await given_up.wait()
    assert not caught.value.sent


async def test_the_guard_is_asked_when_a_write_leaves_and_not_when_it_queues() -> None:
    may_write = True
    release = asyncio.Event()
    got: list[str] = []

    def guard() -> None:
        if not may_write:
            raise errors.NotAllowed("not the leader any more")

    async def handle(request: web.BaseRequest) -> web.Response:
        got.append(request.method)
        await release.wait()
        return web.Response(body=b"{}")

    async with served(handle) as access, connect(access, guard=guard, connections=1) as api:
        first = asyncio.create_task(api.post(PATH, {}))
        await until(lambda: got, "the first was at the server")
        second = asyncio.create_task(api.post(PATH, {}))
        await asyncio.sleep(0)
        may_write = False
        release.set()
        assert await first == b"{}"
        with pytest.raises(errors.NotAllowed):
            await second
        assert await api.get(PATH) == b"{}"
    assert got == ["POST", "GET"]


async def test_a_watch_is_not_held_up_by_writes_that_fill_every_slot() -> None:
    release = asyncio.Event()
    got: list[str] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        got.append(request.method)
        if request.method == "POST":
            await release.wait()
        return web.Response(body=b"{}\n")

    async with served(handle) as access, connect(access, connections=1) as api:
        write = asyncio.create_task(api.post(PATH, {}))
        await until(lambda: got, "the write was at the server")
        async with api.stream(PATH, {"watch": "true"}, idle_s=30) as chunks:
            assert [chunk async for chunk in chunks] == [b"{}\n"]
        release.set()
        await write


async def test_a_refused_token_is_renewed_once_and_the_write_is_sent_again() -> None:
    tokens = iter(["old", "new"])
    current = {"Authorization": next(tokens)}
    got: list[str] = []

    async def headers() -> dict[str, str]:
        return current

    async def renew(stale: object) -> bool:
        nonlocal current
        if (token := next(tokens, None)) is None:
            return False
        current = {"Authorization": token}
        return True

    async def handle(request: web.BaseRequest) -> web.Response:
        got.append(request.headers["Authorization"])
        is_good = got[-1] == "new" and request.method == "POST"
        return web.Response(body=b"{}") if is_good else status(401, "Unauthorized")

    async with (
        served(handle) as plain,
        connect(replace(plain, headers=headers, renew=renew)) as api,
    ):
        assert await api.post(PATH, {}) == b"{}"
        with pytest.raises(errors.Unauthorized):
            await api.get(PATH)
    assert got == ["old", "new", "new"]


async def test_a_large_list_comes_compressed() -> None:
    asked: list[str] = []

    async def handle(request: web.BaseRequest) -> web.Response:
        asked.append(request.headers["Accept-Encoding"])
        answer = web.Response(body=b"x" * 1_000_000)
        answer.enable_compression(web.ContentCoding.gzip)
        return answer

    async with served(handle) as access, connect(access) as api:
        assert len(await api.get(PATH)) == 1_000_000
    assert "gzip" in asked[0]
