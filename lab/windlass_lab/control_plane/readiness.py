"""Plain synchronous requests to the servers of the plane: readiness, and compaction of the store.

They use http.client and not urllib, which would use a proxy named in the environment.
"""

from __future__ import annotations

import json
import ssl
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from typing import Any
from urllib.parse import urlsplit

ANSWER_SECONDS = 5


def is_ready(url: str, path: str, context: ssl.SSLContext | None) -> bool:
    """Return whether the server answers this path with 200."""
    try:
        return _ask("GET", url, path, context, None)[0] == 200
    except (OSError, HTTPException):
        return False


def post(url: str, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Send JSON over plain HTTP and return the JSON of the answer."""
    status, answer = _ask("POST", url, path, None, json.dumps(body))
    if status != 200:
        raise OSError(f"{url}{path} answered {status}: {answer.decode(errors='replace')}")
    return json.loads(answer)


def _ask(
    verb: str, url: str, path: str, context: ssl.SSLContext | None, body: str | None
) -> tuple[int, bytes]:
    address = urlsplit(url).netloc
    if context:
        connection = HTTPSConnection(address, timeout=ANSWER_SECONDS, context=context)
    else:
        connection = HTTPConnection(address, timeout=ANSWER_SECONDS)
    try:
        connection.request(verb, path, body)
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
