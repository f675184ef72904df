"""Speaks to an application as a server does, without one."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

from starlette.types import ASGIApp, Message


@dataclass(slots=True)
class Told:
    """What an application answered."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def ask(app: ASGIApp, path: str, method: str = "GET", body: Any = None, **more: str) -> Told:
    """Ask for a path; further words are headers."""
    sent = {"host": "dash.example", **{k.replace("_", "-"): v for k, v in more.items()}}
    content = b"" if body is None else json.dumps(body).encode()
    if body is not None:
        sent.setdefault("content-type", "application/json")
    route, _, query = path.partition("?")
    scope = {
        "type": "http",
        "method": method,
        "path": route,
        "raw_path": route.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "scheme": "http",
        "server": ("127.0.0.1", 1),
        "headers": [(k.encode(), v.encode()) for k, v in sent.items()],
    }
    told, parts = Told(), [content]

    async def receive() -> Message:
        if parts:
            return {"type": "http.request", "body": parts.pop()}
        await asyncio.Event().wait()  # the browser neither sends more nor goes away
        raise AssertionError

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            told.status = message["status"]
            told.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            told.body += message.get("body", b"")

    await asyncio.wait_for(app(scope, receive, send), 30)
    return told
