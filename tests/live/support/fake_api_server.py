"""A small server that speaks as an API server does, for what a real one does not do at will.

It keeps ConfigMap-like objects, answers lists in pages, watches with resume, bookmarks and lists at
their start; and a test can cut streams, forget history, and have raw bytes sent.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
from aiohttp import web

from windlass.kube.client.auth import Access

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


class Meta(msgspec.Struct, frozen=True, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}


class Thing(msgspec.Struct, frozen=True, gc=False):
    metadata: Meta
    data: dict[str, str] = {}


async def no_credentials() -> dict[str, str]:
    return {}


@asynccontextmanager
async def served(handler: Handler) -> AsyncIterator[Access]:
    """Serve on a free port of loopback; the access needs no credentials."""
    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True), shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0]
    try:
        yield Access(f"http://{host}:{port}", None, no_credentials)
    finally:
        await runner.cleanup()


async def until(is_so: Callable[[], object], what: str) -> None:
    """Wait for a condition; the limit only keeps a broken test from waiting for ever."""
    try:
        async with asyncio.timeout(60):
            while not is_so():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise AssertionError(f"waited in vain until {what}") from None


def status(code: int, reason: str, **details: object) -> web.Response:
    """Answer with a Status, as an API server refuses."""
    body = {
        "kind": "Status",
        "code": code,
        "reason": reason,
        "message": f"it is {reason}",
        "details": details,
    }
    return web.json_response(body, status=code)


class Stage:
    """The objects, their history, and who is watching."""

    def __init__(self, *, offers_list: bool = True) -> None:
        self.offers_list = offers_list
        self.asked: list[dict[str, str]] = []
        self.before: Callable[[dict[str, str]], web.StreamResponse | None] = lambda asked: None
        self.kept_from = 0
        self._objects: dict[str, dict[str, object]] = {}
        self._history: list[tuple[int, bytes]] = []
        self._version = 0
        self._streams: set[web.StreamResponse] = set()
        self._written: dict[web.StreamResponse, int] = {}
        self._news = asyncio.Condition()

    # --- what a test does to it ---

    async def put(self, name: str, *, uid: str = "", **fields: object) -> None:
        """Create or change an object; further fields may be of any shape."""
        kind = "MODIFIED" if name in self._objects else "ADDED"
        self._version += 1
        meta = {"name": name, "namespace": "ns", "uid": uid or f"uid-{name}"}
        meta["resourceVersion"] = str(self._version)
        self._objects[name] = {"metadata": meta, **fields}
        await self._tell(kind, self._objects[name])

    async def remove(self, name: str) -> None:
        """Delete an object."""
        gone = self._objects.pop(name)
        self._version += 1
        gone["metadata"] = {**gone["metadata"], "resourceVersion": str(self._version)}  # type: ignore[dict-item]
        await self._tell("DELETED", gone)

    def forget(self) -> None:
        """Compact: no watch can start from before now."""
        self.kept_from = self._version

    async def bookmark(self) -> None:
        """Send a bookmark to everyone who watches."""
        await self.send(_line("BOOKMARK", {"metadata": {"resourceVersion": str(self._version)}}))

    async def send(self, raw: bytes) -> None:
        """Send bytes to everyone who watches, after what they are due."""
        await until(self._is_level, "watchers were level")
        for stream in list(self._streams):
            await stream.write(raw)

    async def end_streams(self) -> None:
        """End every watch cleanly, as a server does with one that is too slow."""
        await until(self._is_level, "watchers were level")
        await self._stop(list(self._streams))

    async def drop_streams(self) -> None:
        """Break every watch's connection."""
        for stream in list(self._streams):
            stream._req.transport.abort()  # type: ignore[union-attr]
        await self._stop(list(self._streams))

    @property
    def watching(self) -> int:
        """Return how many watch at the moment."""
        return len(self._streams)

    def lists(self) -> list[dict[str, str]]:
        """Return the requests that asked for everything."""
        return [a for a in self.asked if "watch" not in a or "sendInitialEvents" in a]

    # --- what it answers ---

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        asked = dict(request.query)
        self.asked.append(asked)
        if answer := self.before(asked):
            return answer
        if "watch" not in asked:
            return self._list(asked)
        if "sendInitialEvents" in asked and not self.offers_list:
            return status(422, "Invalid")
        if int(asked.get("resourceVersion", self.kept_from)) < self.kept_from:
            return status(410, "Expired")
        return await self._watch(request, asked)

    def _list(self, asked: dict[str, str]) -> web.Response:
        version, begin = self._version, 0
        if "continue" in asked:
            version, begin = map(int, asked["continue"].split("-"))
            if version < self.kept_from:
                return status(410, "Expired")
        end = begin + int(asked.get("limit", 10**9))
        items = list(self._objects.values())
        meta = {"resourceVersion": str(version)}
        if end < len(items):
            meta["continue"] = f"{version}-{end}"
        return web.json_response({"metadata": meta, "items": items[begin:end]})

    async def _watch(self, request: web.BaseRequest, asked: dict[str, str]) -> web.StreamResponse:
        stream = web.StreamResponse()
        await stream.prepare(request)
        since = int(asked.get("resourceVersion", self._version))
        if "sendInitialEvents" in asked:
            await self._send_initial(stream)
        self._streams.add(stream)
        self._written[stream] = since
        while stream in self._streams:
            due = [(v, line) for v, line in self._history if v > self._written[stream]]
            for version, line in due:
                await stream.write(line)
                self._written[stream] = version
            async with self._news:
                if stream in self._streams and self._written[stream] >= self._newest():
                    await self._news.wait()
        return stream

    async def _send_initial(self, stream: web.StreamResponse) -> None:
        for thing in list(self._objects.values()):
            await stream.write(_line("ADDED", thing))
        mark = {"k8s.io/initial-events-end": "true"}
        meta = {"resourceVersion": str(self._version), "annotations": mark}
        await stream.write(_line("BOOKMARK", {"metadata": meta}))

    def _newest(self) -> int:
        return self._history[-1][0] if self._history else 0

    def _is_level(self) -> bool:
        return all(self._written[each] >= self._newest() for each in self._streams)

    async def _tell(self, kind: str, thing: object) -> None:
        self._history.append((self._version, _line(kind, thing)))
        async with self._news:
            self._news.notify_all()

    async def _stop(self, streams: list[web.StreamResponse]) -> None:
        self._streams.difference_update(streams)
        async with self._news:
            self._news.notify_all()


def _line(kind: str, thing: object) -> bytes:
    return json.dumps({"type": kind, "object": thing}).encode() + b"\n"
