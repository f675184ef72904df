"""The HTTP endpoint of a pod for checkpoint requests.

    POST    requests a checkpoint
    GET     returns the latest answer
    DELETE  withdraws the request with the id in the query

The endpoint has no authentication. A caller can make the work save, and nothing else: the scheduler
accepts an answer only for an id that it drew itself.
"""

from __future__ import annotations

import socket
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from socketserver import ThreadingTCPServer
from typing import ClassVar
from urllib.parse import parse_qs, urlsplit

from windlass.checkpoint.protocol import LONGEST, Ack, CheckpointRequest, SaveState, read_request

_SHUTDOWN_POLL_S = 0.1
"""The interval at which the server thread checks whether it has to end."""


class Endpoint:
    """A server in a thread of its own. The last request stays until it is withdrawn."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self._lock = threading.Lock()
        """Guards `_request` and `_ack`, which the server threads and the training loop use."""
        self._request: CheckpointRequest | None = None
        self._ack: Ack | None = None
        """The latest answer; kept after the request is withdrawn."""
        handler = type("BoundHandler", (_Handler,), {"endpoint": self, "request_path": path})
        self._server = (_Server6 if ":" in host else _Server)((host, port), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_SHUTDOWN_POLL_S,), daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """Return the port on which it listens."""
        return self._server.server_address[1]

    def request(self) -> CheckpointRequest | None:
        """Return the current request; None if there is none."""
        with self._lock:
            return self._request

    def answer(self, ack: Ack) -> None:
        """Set the answer that callers get from now on."""
        with self._lock:
            self._ack = ack

    def close(self) -> None:
        """Stop the server."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def receive(self, request: CheckpointRequest) -> Ack:
        """Store a request, which may be repeated, and return the answer to it so far."""
        with self._lock:
            self._request = request
            if self._ack is None or self._ack.id != request.id:
                self._ack = Ack(request.id, SaveState.SAVING, at=int(time.time()))
            return self._ack

    def latest_answer(self) -> Ack | None:
        """Return the latest answer; None if there was no request."""
        with self._lock:
            return self._ack

    def withdraw(self, name: str) -> bool:
        """Remove the request with this id; return False if the current one has another id."""
        with self._lock:
            if self._request is not None and self._request.id != name:
                return False
            self._request = None
            return True


class _Server(ThreadingTCPServer):
    """A plain TCP server: `HTTPServer` first resolves its own name, which may take a minute."""

    allow_reuse_address = True
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    endpoint: ClassVar[Endpoint]
    request_path: ClassVar[str]
    timeout = 5  # seconds, so that a silent caller does not occupy a thread

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST:
            return self._reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        request = read_request(self.rfile.read(int(length)))
        if not self._is_known_path():
            self._reply(HTTPStatus.NOT_FOUND)
        elif request is None:
            self._reply(HTTPStatus.BAD_REQUEST)
        else:
            self._reply(HTTPStatus.ACCEPTED, self.endpoint.receive(request))

    def do_GET(self) -> None:
        ack = self.endpoint.latest_answer()
        if not self._is_known_path():
            self._reply(HTTPStatus.NOT_FOUND)
        else:
            self._reply(HTTPStatus.OK if ack else HTTPStatus.NO_CONTENT, ack)

    def do_DELETE(self) -> None:
        name = parse_qs(urlsplit(self.path).query).get("id", [""])[0]
        if not self._is_known_path():
            self._reply(HTTPStatus.NOT_FOUND)
        else:
            is_removed = self.endpoint.withdraw(name)
            self._reply(HTTPStatus.NO_CONTENT if is_removed else HTTPStatus.CONFLICT)

    def _is_known_path(self) -> bool:
        return urlsplit(self.path).path == self.request_path

    def _reply(self, status: HTTPStatus, ack: Ack | None = None) -> None:
        body = ack.text().encode() if ack else b""
        self.send_response(status)
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Log nothing: the output belongs to the training."""
