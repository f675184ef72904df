"""What every answer tells the browser: nothing from elsewhere, nothing inside another page.

Where anybody may look, requests that were meant for another name are refused, so that no foreign
page can read a dashboard on loopback by pointing a name of its own at it. Behind a door that needs
no help: cookies belong to a name.
"""

from __future__ import annotations

from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.web.server.errors import problem

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cache-control": "private, no-cache",
    "vary": "Authorization, Cookie",
}


class Guarded:
    """An application whose answers carry these headers."""

    def __init__(self, app: ASGIApp, any_host: bool = False) -> None:
        self._app, self._any_host = app, any_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        is_meant = self._any_host or is_local(Headers(scope=scope).get("host", ""))
        await (self._app if is_meant else _REFUSAL)(scope, receive, send_guarded)


def is_local(host: str) -> bool:
    """Is it an address, or this machine's own name?"""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name == "localhost":
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


_REFUSAL = problem("Ask for localhost, or for the address of this machine.", 421)
