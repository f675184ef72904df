"""The security headers of every response: no content from elsewhere, no framing by other pages.

Without authentication, requests for another host name are refused, so that a foreign page cannot
read a dashboard on loopback by DNS rebinding. With authentication that is not needed, because
cookies belong to a host name.
"""

from __future__ import annotations

from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from windlass.web.server.errors import error_response

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


class SecurityHeaders:
    """A middleware that adds the headers to every response."""

    def __init__(self, app: ASGIApp, any_host: bool = False) -> None:
        self._app, self._any_host = app, any_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers[name] = value
            await send(message)

        is_accepted = self._any_host or is_local(Headers(scope=scope).get("host", ""))
        await (self._app if is_accepted else _REFUSAL)(scope, receive, send_with_headers)


def is_local(host: str) -> bool:
    """Return whether the host is an IP address or localhost."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdigit() else host
    if name == "localhost":
        return True
    try:
        ip_address(name.strip("[]"))
    except ValueError:
        return False
    return True


_REFUSAL = error_response("Ask for localhost, or for the address of this machine.", 421)
