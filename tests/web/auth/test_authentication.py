"""Authentication: tokens, sessions, their expiry, and protection against other sites."""

from __future__ import annotations

import asyncio
import json
from base64 import urlsafe_b64encode
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette

from tests.support.asgi import Told, ask
from tests.web.redact.test_redaction import BOARD
from windlass.model.viewers import ReviewUnavailable, Right, Viewer
from windlass.web.auth.authentication import (
    MOST_AT_ONCE,
    NOBODY,
    UNKNOWN,
    AccessDenied,
    Authenticator,
)
from windlass.web.auth.sessions import LONGEST_S, MOST, Sessions
from windlass.web.server.app import DashboardAccess, application, events

PATHS = (
    *("cluster", "queues", "jobs", "job?gang=a", "decisions", "decisions/1"),
    *("room?gang=a", "events"),
)


class Judge:
    """A reviewer that accepts every token except those of strangers."""

    def __init__(self) -> None:
        self.strangers = {"stranger"}
        self.is_away = False
        self.reviews = 0
        self.gate = asyncio.Event()
        self.gate.set()

    async def viewer(self, token: str) -> Viewer | None:
        self.reviews += 1
        await self.gate.wait()
        if self.is_away:
            raise ReviewUnavailable("the API server cannot be asked: it does not answer")
        return None if token in self.strangers else Viewer(token[:20])

    async def may(self, viewer: Viewer, right: Right) -> bool:
        return True


class House:
    """A dashboard with authentication, and its clocks."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.judge = Judge()
        self.looked = 0
        self.door = Authenticator(self.judge, lambda: self.now, lambda: self.now)
        self.app: Starlette = application(
            BOARD, Path("/nowhere"), DashboardAccess(self.door, self.look)
        )

    async def look(self) -> None:
        self.looked += 1

    async def sign_in(self, token: str, **more: str) -> Told:
        return await ask(self.app, "/api/sign-in", "POST", {"token": token}, **more)

    async def cookie(self, token: str = "ann") -> str:
        return (await self.sign_in(token)).headers["set-cookie"].partition(";")[0]

    async def get(self, path: str, **more: str) -> Told:
        return await ask(self.app, f"/api/{path}", **more)


@pytest.fixture
async def house() -> House:
    return House()


@pytest.mark.parametrize("path", PATHS)
async def test_requests_without_a_token_are_refused(house: House, path: str):
    told = await house.get(path)
    assert (told.status, told.json) == (401, {"error": NOBODY})
    assert house.looked == 0


@pytest.mark.parametrize("token", ["stranger", "", " ", "a\x00b", "x" * 20_000, "ü"])
async def test_an_unknown_token_is_refused(house: House, token: str):
    told = await house.sign_in(token)
    assert (told.status, told.json) == (401, {"error": UNKNOWN})
    assert "set-cookie" not in told.headers


async def test_a_bearer_token_needs_no_session(house: House):
    assert (await house.get("jobs", authorization="Bearer ann")).status == 200
    assert (await house.get("jobs", authorization="Basic ann")).status == 401
    assert len(house.door.sessions) == 0


async def test_session_cookie_is_http_only_and_same_site(house: House):
    told = await house.sign_in("ann")
    word, *marks = told.headers["set-cookie"].split("; ")
    assert marks == ["Path=/", f"Max-Age={LONGEST_S}", "HttpOnly", "SameSite=Strict"]
    assert "ann" not in word
    assert (await house.get("jobs", cookie=word)).status == 200
    assert (await house.get("viewer", cookie=word)).json == {"door": True, "name": "ann"}


async def test_session_cookie_is_secure_over_tls(house: House):
    told = await house.sign_in("ann", x_forwarded_proto="https")
    assert told.headers["set-cookie"].endswith("; Secure")


async def test_signing_out_ends_the_session(house: House):
    word = await house.cookie()
    told = await ask(house.app, "/api/sign-out", "POST", {}, cookie=word)
    assert (told.status, "Max-Age=0" in told.headers["set-cookie"]) == (204, True)
    assert (await house.get("jobs", cookie=word)).status == 401


@pytest.mark.parametrize(
    "forged",
    [
        {"sec_fetch_site": "cross-site"},
        {"sec_fetch_site": "same-site"},
        {"origin": "https://evil.example"},
        {"content_type": "text/plain"},
        {"content_type": "application/x-www-form-urlencoded"},
    ],
    ids=str,
)
@pytest.mark.parametrize("path", ["sign-in", "sign-out"])
async def test_cross_site_sign_in_and_sign_out_are_refused(
    house: House, path: str, forged: dict[str, str]
):
    word = await house.cookie()
    told = await ask(house.app, f"/api/{path}", "POST", {"token": "eve"}, cookie=word, **forged)
    assert told.status == 403
    assert "set-cookie" not in told.headers
    assert (await house.get("viewer", cookie=word)).json["name"] == "ann"


@pytest.mark.parametrize("path", ["sign-in", "sign-out"])
async def test_sign_in_and_sign_out_are_not_get_requests(house: House, path: str):
    assert (await house.get(path)).status == 405


async def test_a_session_ends_after_an_hour(house: House):
    word = await house.cookie()
    house.now += LONGEST_S - 1
    assert (await house.get("jobs", cookie=word)).status == 200
    house.now += 1
    assert (await house.get("jobs", cookie=word)).status == 401


async def test_a_revoked_token_is_refused_within_a_minute(house: House):
    word = await house.cookie()
    house.judge.strangers.add("ann")
    assert (await house.get("jobs", cookie=word)).status == 200
    assert house.judge.reviews == 1
    house.now += 61
    assert (await house.get("jobs", cookie=word)).status == 401


async def test_an_expired_token_is_refused(house: House):
    claims = urlsafe_b64encode(json.dumps({"exp": house.now + 10}).encode()).decode()
    word = await house.cookie(f"head.{claims}.signature")
    assert (await house.get("jobs", cookie=word)).status == 200
    house.now += 10
    assert (await house.get("jobs", cookie=word)).status == 401


async def test_number_of_sessions_is_bounded():
    sessions = Sessions(lambda: 0.0)
    words = [sessions.open(f"token-{number}") for number in range(MOST + 3)]
    assert len(sessions) == MOST
    assert sessions.token(words[2]) is None
    assert sessions.token(words[3]) == "token-3"


async def test_new_tokens_are_refused_while_the_api_server_is_away(house: House):
    house.judge.is_away = True
    told = await house.sign_in("ann")
    assert told.status == 503
    assert "the API server cannot be asked" in told.json["error"]
    house.judge.is_away = False
    assert (await house.sign_in("ann")).status == 200


async def test_concurrent_token_reviews_are_bounded(house: House):
    house.judge.gate.clear()
    asked = [asyncio.create_task(house.sign_in(f"t{n}")) for n in range(MOST_AT_ONCE + 5)]
    while house.judge.reviews < MOST_AT_ONCE:
        await asyncio.sleep(0)
    house.judge.gate.set()
    told = [each.status for each in await asyncio.gather(*asked)]
    assert (told.count(200), told.count(503)) == (MOST_AT_ONCE, 5)


async def test_no_response_contains_the_token(house: House):
    secret = "very-secret-token-of-ann-that-is-long"
    word = await house.cookie(secret)
    told = [await house.get(path, cookie=word) for path in (*PATHS[:-1], "viewer")]
    told.append(await house.sign_in(secret))
    assert all(secret not in f"{each.headers}{each.body!r}" for each in told)


async def test_events_end_with_the_session():
    welcome = [True, False]

    async def is_welcome() -> bool:
        return welcome.pop(0)

    stream = events(BOARD, is_welcome)
    assert b"data: " in await anext(stream)
    BOARD.change_signal.ring()
    assert [each async for each in stream] == []


async def test_with_authentication_any_host_name_is_accepted(house: House):
    told = await house.get("viewer", host="windlass.example.com")
    assert (told.status, told.json) == (200, {"door": True, "name": ""})
    assert told.headers["content-security-policy"].startswith("default-src 'none'")
    assert told.headers["cache-control"] == "private, no-cache"


async def test_a_replica_with_nothing_to_show_says_why():
    async def refuse() -> None:
        raise AccessDenied(503, "r0 leads, and this replica stands by: look there.")

    judge: Any = Judge()
    app = application(BOARD, Path("/nowhere"), DashboardAccess(Authenticator(judge), refuse))
    told = await ask(app, "/api/jobs", authorization="Bearer ann")
    assert (told.status, told.json["error"][:8]) == (503, "r0 leads")
