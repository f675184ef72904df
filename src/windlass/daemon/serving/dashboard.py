"""The dashboard of a live cluster, on a port of its own; the API server authorizes its viewers.

It must never harm the scheduler: a port that is taken, or a failure here, only causes a log line.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import uvicorn

from windlass.config import Config
from windlass.daemon.serving.dashboard_feed import DashboardFeed
from windlass.daemon.serving.health import Server
from windlass.daemon.serving.log import StructuredLog
from windlass.daemon.serving.replay_reader import ReplayReader
from windlass.daemon.serving.standby_proxy import StandbyProxy
from windlass.history.store import HistoryStore
from windlass.kube.client import Access, AccessReviews, connect
from windlass.web.auth import Authenticator
from windlass.web.documents import LiveState, RoomExplainer
from windlass.web.server import DashboardAccess, application

CONNECTIONS = 4
"""Reviews in flight at most. They use a session of their own, so that many viewers cannot delay
the writes of the scheduler."""
REVIEW_TIMEOUT_S = 5.0
"""The time-out of one review."""
MOST_CONNECTIONS = 500
"""Connections of viewers at most; more are refused with 503."""
CLOSING_S = 2
"""Seconds that open connections have to end when the server stops."""


class DashboardServer:
    """The server of the dashboard; it serves until it is closed."""

    def __init__(
        self,
        config: Config,
        log: StructuredLog,
        trouble: Callable[[], str],
        tell_room: RoomExplainer | None,
    ) -> None:
        self._config, self._log = config, log
        self.feed = DashboardFeed(LiveState(f"{time.time_ns():x}", tell_room=tell_room), trouble)
        if config.history.url and not config.shadow:
            self.feed.board.recorded = ReplayReader(HistoryStore(config.history.url))
        self._server: uvicorn.Server | None = None
        self._listener: socket.socket | None = None

    def open(self, server: str) -> str:
        """Listen on the port; return the address for other replicas, empty if that fails.

        `server` is the URL of the API server; it selects the network interface.
        """
        address, port = self._config.listens_on, self._config.dashboard.port
        try:
            self._listener = socket.create_server((address, port))
            return f"{_own_address(address, server)}:{self._listener.getsockname()[1]}"
        except OSError as error:
            self._log.line("no dashboard", level="warning", port=port, why=str(error))
            return ""

    async def run(self, access: Access, leader: Callable[[], str]) -> None:
        """Serve until closed; `leader` returns the dashboard address of another leader, or "".

        Every failure is logged and not raised, so that the scheduler goes on.
        """
        try:
            if self._listener is not None:
                with self._listener:
                    await self._run(access, leader, self._listener)
        except Exception as error:
            self._log.line("no dashboard", level="warning", why=f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Stop serving, and end all event streams."""
        self.feed.board.change_signal.silence()
        if self._server is not None:
            self._server.should_exit = True

    async def _run(
        self, access: Access, leader: Callable[[], str], listener: socket.socket
    ) -> None:
        async with connect(access, timeout_s=REVIEW_TIMEOUT_S, connections=CONNECTIONS) as api:
            authentication = Authenticator(AccessReviews(api, self._config.dashboard.audiences))
            app = application(
                self.feed.board, guests=DashboardAccess(authentication, self.feed.look)
            )
            self._server = _server(StandbyProxy(app, leader))
            self._log.line("dashboard", port=listener.getsockname()[1])
            feeding = asyncio.create_task(self.feed.run())
            try:
                await self._server.serve([listener])
            finally:
                feeding.cancel()


def _server(app: StandbyProxy) -> Server:
    config = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        limit_concurrency=MOST_CONNECTIONS,
        timeout_graceful_shutdown=CLOSING_S,
    )
    return Server(config)


def _own_address(address: str, server: str) -> str:
    """Return the address on which we listen or, for a wildcard, the one we use towards `server`."""
    if address not in ("0.0.0.0", "::"):
        host = address
    else:
        to = urlsplit(server)
        family, kind, _, _, where = socket.getaddrinfo(
            to.hostname, to.port or 443, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:  # UDP: connect chooses a route, sends nothing
            probe.connect(where)
            host = probe.getsockname()[0]
    return f"[{host}]" if ":" in host else host
