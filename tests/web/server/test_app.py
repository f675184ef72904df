"""The API of the dashboard, called as an ASGI application."""

from __future__ import annotations

import asyncio
import json
import re
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import msgspec
import pytest
from jsonschema import Draft202012Validator

from tests.given import Outcome, ask, job, node, schedule
from tests.support.checkout import ROOT
from windlass.engine.plan import Plan
from windlass.engine.suggestions.catalog import ChangeKind
from windlass.engine.suggestions.suggest import suggest
from windlass.model.jobs import GangId
from windlass.state.cluster import Cluster
from windlass.web.documents.jobs import start_rows
from windlass.web.documents.live_state import MOST_CYCLES, LiveState
from windlass.web.schema.openapi import description
from windlass.web.server.app import application, events
from windlass.web.server.local_server import PortTaken, run_local_server
from windlass.web.server.security_headers import is_local

NOWHERE = Path("/nonexistent")


def crowded() -> Outcome:
    """Two jobs, and one GPU for them."""
    return schedule(node("n", gpus=1), *(job(name, 1, ask(gpus=1)) for name in "ab"))


def board(cycles: int = 1) -> LiveState:
    """A board that shows two jobs on one GPU."""
    made, there = LiveState("run", tell_room=lambda *_: ["nothing"]), crowded()
    after = there.carried_out()
    for _ in range(cycles):
        made.note(after, there.plan)
    made.show(after, there.plan)
    return made


class Answer:
    """The response of the application."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}
        self.body = b""

    async def take(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            self.body += message.get("body", b"")

    @property
    def json(self) -> Any:
        return json.loads(self.body)


async def get(
    shown: LiveState,
    path: str,
    static: Path = NOWHERE,
    query: str = "",
    into: Answer | None = None,
    **headers: str,
) -> Answer:
    sent = {"host": "127.0.0.1:1", **{k.replace("_", "-"): v for k, v in headers.items()}}
    scope = {
        "type": "http",
        "method": headers.pop("method", "GET"),
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "query_string": query.encode(),
        "scheme": "http",
        "server": ("127.0.0.1", 1),
        "headers": [(k.encode(), v.encode()) for k, v in sent.items()],
    }
    answer, stays = into or Answer(), asyncio.Event()

    async def nothing() -> dict[str, Any]:
        await stays.wait()  # the browser neither sends more nor goes away
        return {}

    await asyncio.wait_for(application(shown, static)(scope, nothing, answer.take), 30)
    return answer


DOCUMENTS = ("cluster", "queues", "jobs", "job?gang=b", "decisions", "decisions/1", "room?gang=b")


@pytest.mark.parametrize("name", DOCUMENTS)
async def test_every_document_matches_its_openapi_schema(name: str):
    path, _, query = f"/api/{name}".partition("?")
    answer = await get(board(), path, query=query)
    described = description()
    path = path.replace("/1", "/{cycle}")
    schema = described["paths"][path]["get"]["responses"]["200"]["content"]["application/json"]
    whole = {"components": described["components"], **schema["schema"]}
    assert answer.status == 200
    Draft202012Validator(whole).validate(answer.json)


def test_page_and_server_use_the_same_field_names():
    page = (ROOT / "ui/src/documents.ts").read_text()
    schemas = description()["components"]["schemas"]
    ours = {name for each in schemas.values() for name in each["properties"]}
    theirs = set(re.findall(r"\b(\w+): ", page))
    assert ours - {"error"} == theirs


async def test_room_is_computed_on_the_shown_cluster():
    asked = []

    def told(cluster: Cluster, _plan: Plan, gang: GangId) -> list[str]:
        asked.append(gang)
        return [f"{len(cluster.nodes)} node"]

    shown = LiveState("run", tell_room=told)
    there = crowded()
    shown.show(there.carried_out(), there.plan)
    answer = await get(shown, "/api/room", query="gang=b")
    assert (answer.json["gang"], answer.json["sentences"], asked) == ("b", ["1 node"], ["b"])


async def test_suggested_changes_have_the_sentences_of_the_engine():
    shown, there = LiveState("run", tell_room=lambda *_: []), crowded()
    cluster = there.carried_out()
    shown.show(cluster, there.plan)
    answer = await get(shown, "/api/room", query="gang=b")
    rows, notes = answer.json["starts"], answer.json["notes"]
    told = [*(each["sentence"] for each in rows), *notes]
    assert sorted(told) == sorted(suggest(cluster.snapshot(), GangId("b")).sentences())
    assert (rows[0]["kind"], rows[0]["allowed"]) == ("priority", True)
    assert rows[0]["sentence"].startswith("it would start with priority 1")


def test_changes_that_are_not_allowed_are_listed_last():
    rows, notes = start_rows(crowded().carried_out().snapshot(), GangId("b"))
    assert [row.allowed for row in rows] == [True, False]
    assert (rows[-1].kind, notes) == ("stop", [])
    assert rows[-1].sentence.endswith("which it may not displace now")


def test_page_has_a_label_for_every_kind_of_change():
    page = (ROOT / "ui/src/parts/starts.tsx").read_text()
    assert set(re.findall(r"^  (\w+): \"", page, re.M)) == {str(kind) for kind in ChangeKind}


@pytest.mark.parametrize("gang", ["a", "nobody"])
async def test_a_running_gang_has_no_room_document(gang: str):
    assert (await get(board(), "/api/room", query=f"gang={gang}")).status == 404


async def test_an_unknown_gang_is_not_found():
    answer = await get(board(), "/api/job", query="gang=nobody")
    assert answer.status == 404
    assert "nobody" not in answer.json["error"]  # what one asked for is not said again
    assert (await get(LiveState("run"), "/api/job", query="gang=nobody")).status == 503


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("jobs?waiting=x", 'waiting is "x" and must be a whole number'),
        ("jobs?count=-1", 'count is "-1"'),
        ("jobs?count=" + "9" * 5000, "count is "),
        ("jobs?fnid=a", "fnid: no such parameter"),
        ("cluster?sinse=1", "sinse: no such parameter"),
        ("job", "Name a gang"),
        ("job?gang=", "Name a gang"),
        ("room?name=a", "name: no such parameter"),
        ("decisions/first", 'cycle is "first"'),
        ("decisions/" + "9" * 5000, "cycle is "),
    ],
)
async def test_invalid_parameters_are_refused_with_a_sentence(address: str, sentence: str):
    path, _, query = address.partition("?")
    answer = await get(board(), f"/api/{path}", query=query)
    assert answer.status == 400
    assert answer.json["error"].startswith(sentence)
    assert len(answer.json["error"]) < 200


async def test_before_the_first_cycle_requests_are_refused_with_a_sentence():
    answer = await get(LiveState("run"), "/api/jobs")
    assert answer.status == 503
    assert "yet" in answer.json["error"]


async def test_if_none_match_is_answered_with_304():
    shown = board()
    tag = (await get(shown, "/api/cluster")).headers["etag"]
    assert (await get(shown, "/api/cluster", if_none_match=tag)).status == 304
    there = schedule(node("n", gpus=1))
    shown.show(there.cluster, there.plan)
    assert (await get(shown, "/api/cluster", if_none_match=tag)).status == 200


@pytest.mark.parametrize("name", ["cluster", "queues", "decisions"])
async def test_a_request_with_since_is_answered_with_a_delta(name: str):
    shown = board()
    first = await get(shown, f"/api/{name}")
    there = crowded()
    shown.note(there.cluster, there.plan)
    shown.show(there.cluster, there.plan)
    since = first.headers["etag"].strip('"')
    changes = (await get(shown, f"/api/{name}", query=f"since={since}")).json
    assert (changes["since"], len(changes["changes"])) == (since, 1)
    assert changes["changes"][0]["in"]["stamp"]["in"]["version"] == {"is": 2}
    assert (await get(shown, f"/api/{name}", query="since=other-1")).json["stamp"]["version"] == 2


def test_a_document_is_made_once_for_concurrent_requests():
    pages = board().documents
    with ThreadPoolExecutor(8) as viewers:
        answers = [viewers.submit(pages.answer, "cluster") for _ in range(32)]
        bodies = {id(found.body) for each in answers if (found := each.result())}
    assert len(bodies) == 1


async def test_a_window_of_jobs_is_requested_by_its_first_rows():
    answer = await get(board(), "/api/jobs", query="waiting=1&count=5&find=")
    assert (answer.json["waiting_in_all"], answer.json["waiting_first"]) == (1, 1)
    assert (answer.json["waiting"], len(answer.json["running"])) == ([], 1)
    one = await get(board(), "/api/job", query="gang=b")
    assert one.json["waiting"]["gang"] == "b"


async def test_remembered_cycles_are_bounded_and_the_oldest_is_forgotten():
    shown = board(cycles=MOST_CYCLES + 2)
    kept = (await get(shown, "/api/decisions")).json["cycles"]["cycle"]
    assert (kept[0], kept[-1], len(kept)) == (3, MOST_CYCLES + 2, MOST_CYCLES)
    assert (await get(shown, "/api/decisions/2")).status == 404
    assert (await get(shown, "/api/decisions/3")).json["cycle"] == 3


async def test_events_send_the_stamp_now_and_on_every_change():
    shown = board()
    stream = events(shown)
    first = await anext(stream)
    there = schedule(node("n", gpus=1))
    shown.show(there.cluster, there.plan)
    second = await anext(stream)
    await stream.aclose()
    assert [_version(first), _version(second)] == [1, 2]


async def test_events_end_when_the_server_stops():
    shown = board()
    stream = events(shown)
    await anext(stream)
    shown.change_signal.silence()
    assert [each async for each in stream] == []


def _version(event: bytes) -> int:
    number, data = event.decode().strip().split("\n")
    stamp = msgspec.json.decode(data.removeprefix("data: "))
    assert number == f"id: {stamp['version']}"
    return stamp["version"]


@pytest.mark.parametrize("path", ["/api/cluster", "/openapi.json", "/", "/no-such"])
async def test_every_response_has_the_security_headers(path: str):
    answer = await get(board(), path)
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
async def test_methods_other_than_get_are_refused(method: str):
    answer = await get(board(), "/api/jobs", method=method)
    assert (answer.status, set(answer.json)) == (405, {"error"})


@pytest.mark.parametrize("path", ["/no-such", "/api/no-such", "/api/job/x", "/"])
async def test_every_error_is_a_problem_document(path: str):
    answer = await get(board(), path)
    assert (answer.status, set(answer.json)) == (404, {"error"})
    assert answer.headers["content-type"] == "application/json"


async def test_an_internal_error_is_a_problem_document(monkeypatch: pytest.MonkeyPatch):
    shown, answer = board(), Answer()
    monkeypatch.setattr(shown.documents, "jobs", None)
    with pytest.raises(TypeError):  # the server logs it, after the answer
        await get(shown, "/api/jobs", into=answer)
    assert (answer.status, set(answer.json)) == (500, {"error"})


async def test_a_foreign_host_name_is_refused():
    answer = await get(board(), "/api/jobs", host="evil.example")
    assert (answer.status, set(answer.json)) == (421, {"error"})
    hosts = ("localhost:1", "127.0.0.1", "[::1]:80", "evil.example:80", "")
    assert [is_local(host) for host in hosts] == [True, True, True, False, False]


async def test_without_a_built_page_the_response_says_how_to_build_it():
    answer = await get(board(), "/")
    assert answer.status == 404
    assert b"Node 20" in answer.body


async def test_the_built_page_is_served(tmp_path: Path):
    (tmp_path / "index.html").write_text("<!doctype html><title>here</title>")
    assert b"here" in (await get(board(), "/", tmp_path)).body


def test_local_server_listens_on_loopback_and_stops_with_its_context():
    with run_local_server(board(), port=0) as address:
        assert address.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(f"{address}api/jobs", timeout=10) as answer:
            assert json.load(answer)["waiting_in_all"] == 1
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(f"{address}api/jobs", timeout=10)


def test_a_port_in_use_is_named_in_the_error():
    with run_local_server(board(), port=0) as address:
        port = int(address.rstrip("/").rpartition(":")[2])
        with pytest.raises(PortTaken, match=str(port)), run_local_server(board(), port):
            pass
