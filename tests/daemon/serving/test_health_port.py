"""The port on which a daemon tells of itself."""

from __future__ import annotations

import socket

import pytest

from windlass.daemon.serving.health import listen
from windlass.model.errors import WindlassError


def test_a_port_that_is_taken_is_told_in_one_sentence():
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(WindlassError, match=f"127.0.0.1:{port} cannot be listened on") as told:
            listen("127.0.0.1", port)
    assert "--port" in str(told.value)
