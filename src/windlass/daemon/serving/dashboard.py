"""The dashboard of a live cluster: a port of its own, and a door that the API server watches.

It must never harm the scheduler: a port that is taken, or a fault in here, is a line in the log.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from urllib.parse import urlsplit

import uvicorn

from windlass.config import Config
from windlass.daemon.serving.dashboard_feed import Showing
from windlass.daemon.serving.health import Server
from windlass.daemon.serving.log import StructuredLog
from windlass.daemon.serving.replay_reader import ReplayReader
from windlass.daemon.serving.standby_proxy import Forwarding
from windlass.history.store import HistoryStore
from windlass.kube.client.access_reviews import Reviews
from windlass.kube.client.auth import Access
from windlass.kube.client.client import connect
from windlass.web.auth.authentication import Door
from windlass.web.feed.live_state import LiveState, Told
from windlass.web.server.app import Guests, application

CONNECTIONS = 4
"""So many reviews are under way at most: scheduling has a session of its own."""
REVIEW_TIMEOUT_S = 5.0
MOST_CONNECTIONS = 500
CLOSING_S = 2


class DashboardServer:
    """Serves until it is closed."""

    def __init__(
        self, config: Config, log: StructuredLog, trouble: Callable[[], str], tell_room: Told | None
    ) -> None:
        self._config, self._log = config, log
        self.showing = Showing(LiveState(f"{time.time_ns():x}", tell_room=tell_room), trouble)
        if config.history.url and not config.shadow:
            self.showing.board.recorded = ReplayReader(HistoryStore(config.history.url))
        self._server: uvicorn.Server | None = None
        self._listener: socket.socket | None = None

    def open(self, server: str) -> str:
        """Take the port; answers where other replicas reach it, or nothing if it cannot be had."""
        address, port = self._config.listens_on, self._config.dashboard.port
        try:
            self._listener = socket.create_server((address, port))
            return f"{_own_address(address, server)}:{self._listener.getsockname()[1]}"
        except OSError as error:
            self._log.line("no dashboard", level="warning", port=port, why=str(error))
            return ""

    async def run(self, access: Access, leader: Callable[[], str]) -> None:
        """Serve; what goes wrong is told and leaves the scheduler alone."""
        try:
            if self._listener is not None:
                with self._listener:
                    await self._run(access, leader, self._listener)
        except Exception as error:
            self._log.line("no dashboard", level="warning", why=f"{type(error).__name__}: {error}")

    def close(self) -> None:
        """Let everybody go."""
        self.showing.board.bell.silence()
        if self._server is not None:
            self._server.should_exit = True

    async def _run(
        self, access: Access, leader: Callable[[], str], listener: socket.socket
    ) -> None:
        async with connect(access, timeout_s=REVIEW_TIMEOUT_S, connections=CONNECTIONS) as api:
            door = Door(Reviews(api, self._config.dashboard.audiences))
            app = application(self.showing.board, guests=Guests(door, self.showing.look))
            self._server = _server(Forwarding(app, leader))
            self._log.line("dashboard", port=listener.getsockname()[1])
            showing = asyncio.create_task(self.showing.run())
            try:
                await self._server.serve([listener])
            finally:
                showing.cancel()


def _server(app: Forwarding) -> Server:
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
    """The address of this host: the one that is served on, or from which the server is reached."""
    if address not in ("0.0.0.0", "::"):
        found = address
    else:
        to = urlsplit(server)
        family, kind, _, _, where = socket.getaddrinfo(
            to.hostname, to.port or 443, type=socket.SOCK_DGRAM
        )[0]
        with socket.socket(family, kind) as probe:  # nothing is sent
            probe.connect(where)
            found = probe.getsockname()[0]
    return f"[{found}]" if ":" in found else found
