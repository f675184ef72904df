"""Health, readiness and metrics, and in shadow mode its report, on one port."""

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
    """`trouble` says in a sentence why this process is not ready; empty if it is."""

    async def healthz(_request: Request) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: Request) -> Response:
        found = trouble()
        return PlainTextResponse(f"{found or 'ok'}\n", 503 if found else 200)

    async def tell_metrics(_request: Request) -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    async def tell_shadow(_request: Request) -> Response:
        assert shadow is not None
        return JSONResponse(await asyncio.to_thread(shadow))

    routes = [
        Route("/healthz", healthz),
        Route("/readyz", readyz),
        Route("/metrics", tell_metrics),
    ]
    return Starlette(routes=routes + ([Route("/shadow", tell_shadow)] if shadow else []))


class Server(uvicorn.Server):
    """A server that leaves the signals to the daemon."""

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        """Nothing is captured."""
        yield


def listen(address: str, port: int) -> socket.socket:
    """Take a port of this host; WindlassError if it cannot be had."""
    try:
        return socket.create_server((address, port))
    except OSError as error:
        raise WindlassError(
            f"{address}:{port} cannot be listened on: {error.strerror or error}. "
            "Name another port with --port, or stop what uses it."
        ) from error


def server(app: Starlette, address: str, port: int) -> Server:
    """A server at an address of this host."""
    config = uvicorn.Config(
        app, host=address, port=port, log_level="error", access_log=False, lifespan="off"
    )
    return Server(config)
