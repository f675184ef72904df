"""A dashboard on loopback, served in a thread of its own while the main thread does the work."""

from __future__ import annotations

import socket
from collections.abc import Generator
from contextlib import contextmanager
from threading import Thread

import uvicorn

from windlass.model.errors import WindlassError
from windlass.web.documents import LiveState
from windlass.web.server.app import application

LOOPBACK = "127.0.0.1"
USUAL_PORT = 8321


class PortTaken(WindlassError):
    """The requested port is in use."""


@contextmanager
def run_local_server(board: LiveState, port: int | None = None) -> Generator[str, None, None]:
    """Serve the dashboard and yield its address.

    Without a port it is `USUAL_PORT`, or any free one if that is in use.
    """
    listener = _listen(port)
    address = f"http://{LOOPBACK}:{listener.getsockname()[1]}/"
    config = uvicorn.Config(
        application(board), log_level="error", access_log=False, lifespan="off", ws="none"
    )
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, args=([listener],), name="dashboard", daemon=True)
    thread.start()
    try:
        yield address
    finally:
        board.change_signal.silence()
        server.should_exit = True
        thread.join(timeout=5)
        listener.close()


def _listen(port: int | None) -> socket.socket:
    for candidate in (port,) if port is not None else (USUAL_PORT, 0):
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((LOOPBACK, candidate))
        except OSError:
            listener.close()
            continue
        listener.listen()
        return listener
    raise PortTaken(f"port {port} of {LOOPBACK} cannot be used; name another with --port")
