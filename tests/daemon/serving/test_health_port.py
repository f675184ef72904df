"""The port for health, readiness and metrics."""

from __future__ import annotations

import socket

import pytest

from windlass.daemon.serving.health import listen
from windlass.model.errors import WindlassError


def test_a_port_in_use_is_reported_in_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(
            WindlassError, match=f"127.0.0.1:{port} cannot be listened on"
        ) as raised:
            listen("127.0.0.1", port)
    assert "--port" in str(raised.value)
