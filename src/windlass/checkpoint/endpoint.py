"""The endpoint of a pod that is asked over HTTP: POST asks, GET tells how far, DELETE withdraws.

Whoever can reach the port can make the work save, and no more than that: an answer counts only
with an id that the scheduler drew.
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

_NOTICES_ITS_END_S = 0.1


class Endpoint:
    """Listens in a thread of its own; what it was asked last stands until it is withdrawn."""

    def __init__(self, host: str, port: int, path: str) -> None:
        self._lock = threading.Lock()
        self._request: CheckpointRequest | None = None
        self._ack: Ack | None = None
        handler = type("Bound", (_Handler,), {"endpoint": self, "place": path})
        self._server = (_Server6 if ":" in host else _Server)((host, port), handler)
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(_NOTICES_ITS_END_S,), daemon=True
        )
        self._thread.start()

    @property
    def port(self) -> int:
        """Where it listens."""
        return self._server.server_address[1]

    def request(self) -> CheckpointRequest | None:
        """What it is asked for now."""
        with self._lock:
            return self._request

    def answer(self, ack: Ack) -> None:
        """Tell from now on how far it is."""
        with self._lock:
            self._ack = ack

    def close(self) -> None:
        """Listen no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def asked(self, request: CheckpointRequest) -> Ack:
        """A request came, perhaps once more: it is answered with how far it is."""
        with self._lock:
            self._request = request
            if self._ack is None or self._ack.id != request.id:
                self._ack = Ack(request.id, SaveState.SAVING, at=int(time.time()))
            return self._ack

    def told(self) -> Ack | None:
        """The latest answer."""
        with self._lock:
            return self._ack

    def withdrawn(self, name: str) -> bool:
        """The request of this id is void; one of another id is left as it is."""
        with self._lock:
            if self._request is not None and self._request.id != name:
                return False
            self._request = None
            return True


class _Server(ThreadingTCPServer):
    """Not an `HTTPServer`: that one looks up its own name first, which may take a minute."""

    allow_reuse_address = True
    daemon_threads = True


class _Server6(_Server):
    address_family = socket.AF_INET6


class _Handler(BaseHTTPRequestHandler):
    endpoint: ClassVar[Endpoint]
    place: ClassVar[str]
    timeout = 5  # a caller that says nothing does not keep a thread

    def do_POST(self) -> None:
        length = self.headers.get("Content-Length", "")
        if not length.isdecimal() or int(length) > LONGEST:
            return self._reply(HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        request = read_request(self.rfile.read(int(length)))
        if not self._is_here():
            self._reply(HTTPStatus.NOT_FOUND)
        elif request is None:
            self._reply(HTTPStatus.BAD_REQUEST)
        else:
            self._reply(HTTPStatus.ACCEPTED, self.endpoint.asked(request))

    def do_GET(self) -> None:
        ack = self.endpoint.told()
        if not self._is_here():
            self._reply(HTTPStatus.NOT_FOUND)
        else:
            self._reply(HTTPStatus.OK if ack else HTTPStatus.NO_CONTENT, ack)

    def do_DELETE(self) -> None:
        name = parse_qs(urlsplit(self.path).query).get("id", [""])[0]
        if not self._is_here():
            self._reply(HTTPStatus.NOT_FOUND)
        else:
            done = self.endpoint.withdrawn(name)
            self._reply(HTTPStatus.NO_CONTENT if done else HTTPStatus.CONFLICT)

    def _is_here(self) -> bool:
        return urlsplit(self.path).path == self.place

    def _reply(self, status: HTTPStatus, ack: Ack | None = None) -> None:
        body = ack.text().encode() if ack else b""
        self.send_response(status)
        if status is not HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing: the output belongs to the training."""
