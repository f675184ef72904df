"""A proxy in front of the API server that records every call and can make any of them fail.

    async with recording(access) as proxy:
        proxy.write_kubeconfig(path)                       # for the program under test
        proxy.on("create", "pods/binding", answer(409), times=1)
        proxy.on("create", "pods/binding", kill(pid), when=When.AFTER)

A hook is called before a call is passed on, or after its answer has arrived and before that is
passed back. It may wait (a delay; for ever: a hang), answer itself, or cut the connection. Towards
the program the proxy speaks plain HTTP on loopback; towards the API server it uses the access it
was given. Each program has its own proxy, so that its record shows the calls of one program.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
from aiohttp import web

from windlass.certificates import write_secret
from windlass.kube.client import Access
from windlass_lab.api_proxy.calls import Call, call_of
from windlass_lab.api_proxy.faults import Cut, Hook, ProxyAnswer, Verdict, When

HOP = {"connection", "keep-alive", "transfer-encoding", "te", "upgrade", "host", "content-length"}
"""Headers that belong to one connection and are not passed on."""


@dataclass(slots=True)
class ProxyRule:
    """A hook, the calls to which it applies, and the number of calls left."""

    verb: str
    resource: str
    when: When
    hook: Hook
    times: int | None
    only: Callable[[Call], bool]
    met: int = 0
    """The number of calls to which it was applied."""

    def applies(self, call: Call, when: When) -> bool:
        """Return whether the rule applies to this call at this moment."""
        return (
            self.when is when
            and self.verb in ("*", call.verb)
            and self.resource in ("*", call.resource)
            and self.times != 0
            and self.only(call)
        )

    async def ask(self, call: Call) -> Verdict:
        """Return the verdict of the hook about the call."""
        self.met += 1
        if self.times is not None:
            self.times -= 1
        return await self.hook(call)


@dataclass(slots=True)
class Proxy:
    """The record of all calls, and the rules that apply to them."""

    access: Access
    session: aiohttp.ClientSession
    url: str = ""
    calls: list[Call] = field(default_factory=list[Call])
    rules: list[ProxyRule] = field(default_factory=list[ProxyRule])
    _watches: set[asyncio.BaseTransport] = field(default_factory=set[asyncio.BaseTransport])
    _open: asyncio.Event = field(default_factory=asyncio.Event)

    def on(
        self,
        verb: str,
        resource: str,
        hook: Hook,
        *,
        when: When = When.BEFORE,
        times: int | None = None,
        only: Callable[[Call], bool] = lambda _call: True,
    ) -> ProxyRule:
        """Call the hook at these calls, a number of times or always; `*` matches any. Earlier rules
        come first."""
        rule = ProxyRule(verb, resource, when, hook, times, only)
        self.rules.append(rule)
        return rule

    def write_kubeconfig(self, path: Path) -> Path:
        """Write a kubeconfig that leads to this proxy; its users have the proxy's rights."""
        name = "proxy"
        config: dict[str, object] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": name,
            "clusters": [{"name": name, "cluster": {"server": self.url}}],
            "users": [{"name": name, "user": {}}],
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
        }
        write_secret(path, json.dumps(config).encode())
        return path

    def writes(self) -> list[Call]:
        """Return the calls that would change something."""
        return [each for each in self.calls if each.is_write]

    def under_way(self) -> list[Call]:
        """Return the writes that the server may still carry out, though their caller is gone."""
        return [each for each in self.writes() if each.is_sent and not each.is_over]

    def cut_watches(self) -> int:
        """Break the connection of every watch, and return their number."""
        watches = list(self._watches)
        for each in watches:
            each.close()
        return len(watches)

    def stand_still(self) -> None:
        """Let no call begin and no event through, without an answer, until `go_on`."""
        self._open.clear()

    def go_on(self) -> None:
        """Let through what has been waiting."""
        self._open.set()

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        """Pass one call on, with the rules that apply to it."""
        body = await request.read()
        call = call_of(request.method, request.path, request.query, body)
        call.number = len(self.calls)
        self.calls.append(call)
        await self._open.wait()
        if verdict := await self._ask(call, When.BEFORE):
            return _given(verdict, request)
        call.is_sent = True
        try:
            return await self._pass_on(call, request)
        except (aiohttp.ClientError, OSError):
            return _given(Cut(), request)
        finally:
            call.is_over = True

    async def _ask(self, call: Call, when: When) -> Verdict:
        for rule in list(self.rules):
            if rule.applies(call, when) and (verdict := await rule.ask(call)):
                return verdict
        return None

    async def _pass_on(self, call: Call, request: web.BaseRequest) -> web.StreamResponse:
        headers = {key: value for key, value in request.headers.items() if key.lower() not in HOP}
        async with self.session.request(
            request.method,
            self.access.server + request.raw_path,
            headers=headers | dict(await self.access.headers()),
            data=call.body or None,
            ssl=True if self.access.ssl is None else self.access.ssl,
            allow_redirects=False,
        ) as found:
            content = b"" if call.verb == "watch" else await found.read()
            call.status = found.status
            if verdict := await self._ask(call, When.AFTER):
                return _given(verdict, request)
            await self._open.wait()
            if call.verb == "watch" and found.status == 200:
                return await self._stream(found, request)
            passed = {k: v for k, v in found.headers.items() if k.lower() not in HOP}
            return web.Response(
                body=content or await found.read(), status=found.status, headers=passed
            )

    async def _stream(
        self, found: aiohttp.ClientResponse, request: web.BaseRequest
    ) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": found.content_type})
        await stream.prepare(request)
        transport = request.transport
        assert transport is not None
        self._watches.add(transport)
        try:
            async for chunk in found.content.iter_any():
                await self._open.wait()
                await stream.write(chunk)
        finally:
            self._watches.discard(transport)
        return stream


@asynccontextmanager
async def recording(access: Access) -> AsyncGenerator[Proxy]:
    """Open a proxy to the API server of the access, on a free port of loopback."""
    connector = aiohttp.TCPConnector(limit=0)
    timeout = aiohttp.ClientTimeout(total=None)
    async with aiohttp.ClientSession(
        connector=connector, timeout=timeout, auto_decompress=False, read_bufsize=1 << 20
    ) as session:
        proxy = Proxy(access, session)
        proxy.go_on()
        # zero would mean to wait for a hanging call for ever
        runner = web.ServerRunner(web.Server(proxy.handle), shutdown_timeout=0.1)
        await runner.setup()
        try:
            await web.TCPSite(runner, "127.0.0.1", 0).start()
            host, port = runner.addresses[0][:2]
            proxy.url = f"http://{host}:{port}"
            yield proxy
        finally:
            await runner.cleanup()


def _given(verdict: ProxyAnswer | Cut, request: web.BaseRequest) -> web.StreamResponse:
    if isinstance(verdict, Cut):
        if request.transport is not None:
            request.transport.abort()
        return web.Response()  # nobody is there to read it
    body = {
        "apiVersion": "v1",
        "kind": "Status",
        "status": "Failure",
        "code": verdict.status,
        "reason": verdict.reason,
        "message": f"the proxy answers {verdict.status}",
    }
    headers = {"Retry-After": str(verdict.retry_after_s)} if verdict.retry_after_s else {}
    return web.json_response(body, status=verdict.status, headers=headers)
