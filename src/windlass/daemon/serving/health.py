"""The port for health, readiness and metrics and, in shadow mode, its report."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route

from windlass.metrics import Metrics
from windlass.model.errors import WindlassError


def application(
    trouble: Callable[[], str],
    metrics: Metrics,
    shadow: Callable[[], dict[str, Any]] | None = None,
) -> Starlette:
    """Return the web application of the port.

    `trouble` returns why this process is not ready, in a sentence; empty if it is ready.
    """

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        sentence = trouble()
        return PlainTextResponse(f"{sentence or 'ok'}\n", 503 if sentence else 200)

    async def serve_metrics(_request: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    async def serve_shadow_report(_request: Request) -> Response:
        assert shadow is not None
        return JSONResponse(await asyncio.to_thread(shadow))

    routes = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", serve_metrics),
    ]
    if shadow:
        routes.append(Route("/shadow", serve_shadow_report))
    return Starlette(routes=routes)


class Server(uvicorn.Server):
    """A uvicorn server that does not handle signals: the daemon does."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Capture no signal."""
        yield


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens on a port; raises `WindlassError` if that is not possible."""
    try:
        return socket.create_server((address, port))
    except OSError as error:
        raise WindlassError(
            f"{address}:{port} cannot be listened on: {error.strerror or error}. "
            "Name another port with --port, or stop what uses it."
        ) from error


def server(app: Starlette, address: str, port: int) -> Server:
    """Return a server for an application at an address of this host."""
    config = uvicorn.Config(
        app, host=address, port=port, log_level="error", access_log=False, lifespan="off"
    )
    return Server(config)
