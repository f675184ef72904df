"""No document of any kind contains a name that its viewer may not see.

The documents are requested over HTTP at every address of the description of the API, so a document
that is added later is tested without a change here, or fails the test until it is requested.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.given import Job, ask, cluster, job, node
from tests.support import asgi
from tests.web.redact.test_redaction import ANN, Judge
from windlass.engine.cycle import plan
from windlass.model.actions import Hold, PlaceClaim
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, TaskId
from windlass.model.nodes import Topology
from windlass.model.queues import GPU, Queue
from windlass.model.reasons import Reason, ReasonCode
from windlass.web.auth.authentication import Authenticator
from windlass.web.auth.authorization import AccessRights, VisibleScope
from windlass.web.documents.jobs import ListWindow
from windlass.web.documents.live_state import LiveState
from windlass.web.feed import throttle
from windlass.web.feed.view import ClusterView, ViewExtras
from windlass.web.redact.view import ViewRedactor
from windlass.web.redact.viewer import ViewReader
from windlass.web.schema.documents import Eta, FinishedJob
from windlass.web.schema.openapi import description
from windlass.web.server.app import DashboardAccess, application

TEAMS = ("crimson", "azure", "olive")
QUEUES = ("company", "division", *(f"queue-of-{team}" for team in TEAMS))
SCOPES = st.builds(
    VisibleScope,
    st.none() | st.frozensets(st.sampled_from(TEAMS)),
    st.none() | st.frozensets(st.sampled_from(QUEUES)),
    st.booleans(),
)
NOT_DOCUMENTS = {"/api/events"}
"""The stream of stamps: it has no names, and it does not end."""


def gang(team: str, number: int, count: int = 1, of: str = "") -> Job:
    return job(
        f"{team}/job{number}~0123",
        count,
        ask(gpus=1),
        queue=f"queue-of-{of or team}",
        user=f"user-of-{team}",
        namespace=team,
    )


def room(*_: object) -> list[str]:
    return [f"queue queue-of-{team} may lose {team}/job0~0123" for team in TEAMS]


@cache
def board() -> LiveState:
    """A board with everything that has a name: evictions, holds, ETAs, ended jobs, lost nodes."""
    queues = [Queue("company"), Queue("division", parent="company")]
    queues += [
        Queue(f"queue-of-{team}", parent=parent, guarantee={GPU: 4000})
        for team, parent in zip(TEAMS, ("division", "division", "company"), strict=True)
    ]
    racks = {team: {"rack": f"rack-of-{team}"} for team in TEAMS}
    nodes = [node(f"node-of-{team}", gpus=4, labels=racks[team]) for team in TEAMS]
    # The first team has all GPUs; the others reclaim their guarantees.
    first = TEAMS[0]
    running = [
        gang(first, 10 * number + device).runs(0, on=each.name, devices=[device])
        for number, each in enumerate(nodes)
        for device in range(4)
    ]
    strays = [gang(team, 90, of=TEAMS[2]) for team in TEAMS]
    waiting = [gang(team, 80 + number) for team in TEAMS for number in range(3)]
    there = cluster(Topology("net", ("rack",)), *nodes, *queues, *running, *strays, *waiting)
    there.advance(86_400)
    planned = plan(there)
    assert planned.evictions, "another team makes room"
    there.assume(planned)
    claims = tuple(PlaceClaim(TaskId("x"), each.name, (Slice(3, 1000),)) for each in nodes)
    holds = [Hold(GangId(f"{team}/job82~0123"), claims, starts_at=90_000) for team in TEAMS]
    reserved = [Reason(ReasonCode.RESERVED, {"gang": f"{team}/job82~0123"}) for team in TEAMS]
    decisions = [replace(each, reasons=(*each.reasons, *reserved)) for each in planned.decisions]
    planned = replace(planned, holds=(*planned.holds, *holds), decisions=tuple(decisions))
    made = LiveState("run", tell_room=room)
    made.note(there, planned)
    made.show(
        there,
        planned,
        ViewExtras(
            away=[node(f"lost-of-{team}", gpus=1, labels=racks[team]) for team in TEAMS],
            finished=[
                FinishedJob(f"{t}/old", "old", f"queue-of-{t}", f"user-of-{t}", t, 0, 1, 2)
                for t in TEAMS
            ],
            utilisation={each.name: [1, 2] for each in nodes},
            etas={hold.gang: Eta(1, 1, 1) for hold in holds},
        ),
    )
    return made


def whole_view() -> ClusterView:
    shown = board().documents.shown
    assert shown is not None
    return shown.view


def requests() -> Iterator[str]:
    """A request for every document that the description of the API lists."""
    gangs = [f"{team}/job{number}~0123" for team in TEAMS for number in (0, 82, 90)]
    for path, methods in description()["paths"].items():
        if path in NOT_DOCUMENTS:
            continue
        parameters = {each["name"]: each for each in methods["get"]["parameters"]}
        if "gang" in parameters:
            yield from (f"{path}?gang={name}" for name in (*gangs, f"{TEAMS[0]}/old"))
        elif "find" in parameters:
            yield from (path, f"{path}?find=job", f"{path}?find=queue-of-{TEAMS[1]}")
        else:
            query = {"key": "?key=1~run", "until": "?until=1"}
            yield path.replace("{cycle}", "1") + "".join(query[n] for n in query if n in parameters)


@pytest.fixture(autouse=True, scope="module")
def _no_pauses() -> Iterator[None]:
    """The pauses between documents protect a scheduler; here they only cost time."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(throttle, "PART", 0)
        yield


async def queues(scope: VisibleScope) -> Any:
    reader = ViewReader(board(), AccessRights(Judge(scope)))
    return json.loads((await reader.document(ANN, "queues")).body)


async def answers(scope: VisibleScope) -> dict[str, str]:
    async def look() -> None:
        pass

    app = application(board(), Path("/nowhere"), DashboardAccess(Authenticator(Judge(scope)), look))
    bodies: dict[str, str] = {}
    for request in requests():
        answer = await asgi.ask(app, request, authorization="Bearer ann")
        assert answer.status in (200, 403, 404), request
        if answer.status == 200:
            bodies[request] = json.dumps(answer.json)
    return bodies


def hidden_names(scope: VisibleScope) -> Iterator[str]:
    """Patterns of everything that may not be in any document."""
    for team in TEAMS:
        if not scope.sees_gang(f"{team}/"):
            yield from (f"{team}/", f"user-of-{team}", f'"{team}"')
    yield from (rf"\b{queue}\b" for queue in QUEUES if not scope.sees_queue(queue))
    if not scope.nodes:
        tasks = whole_view().tasks.values()
        own = {task.node for task in tasks if scope.sees_gang(task.gang)}
        own |= {
            claim.node
            for hold in whole_view().plan.holds
            if scope.sees_gang(hold.gang)
            for claim in hold.claims
        }
        yield from (f'"{name}"' for name in whole_view().nodes if name not in own)
        yield "lost-of-"


def test_every_address_with_data_is_in_the_description():
    """The next test requests the addresses of the description, so none may be missing there."""

    async def look() -> None:
        pass

    app = application(
        board(), Path("/nowhere"), DashboardAccess(Authenticator(Judge(VisibleScope())), look)
    )
    paths = {str(getattr(route, "path", "")) for route in app.routes}
    paths = {path.replace("{number}", "{cycle}") for path in paths if path.startswith("/api/")}
    signing_in = {"/api/viewer", "/api/sign-in", "/api/sign-out"}
    assert paths - signing_in == description()["paths"].keys()


@given(SCOPES)
@settings(max_examples=25, deadline=None)
async def test_no_document_contains_a_hidden_name(scope: VisibleScope):
    bodies = await answers(scope)
    assert {"/api/cluster", "/api/queues", "/api/jobs", "/api/decisions"} <= bodies.keys()
    for request, body in bodies.items():
        for pattern in hidden_names(scope):
            assert not re.search(pattern, body), f"{pattern} in {request}"


@given(SCOPES)
@settings(max_examples=50, deadline=None)
def test_a_redacted_view_contains_no_hidden_name(scope: VisibleScope):
    """A document that is added later is made of this view, so the view itself must be clean."""
    view = ViewRedactor().redact_view(whole_view(), scope)
    reasons = [str(each) for entry in view.plan.decisions for each in entry.reasons]
    text = json.dumps(
        [reasons, repr(view.plan), repr(view.gangs), repr(view.tasks), repr(view.queues)]
        + [repr(view.balances), repr(view.beside)]
        + [repr(each) for each in (view.nodes if not scope.nodes else ())]
    ).replace("'", '"')
    for pattern in hidden_names(scope):
        assert not re.search(pattern.replace('"', r'\\?"'), text), pattern


@given(SCOPES)
@settings(max_examples=25, deadline=None)
async def test_the_numbers_of_visible_queues_are_those_of_the_whole_cluster(scope: VisibleScope):
    whole, seen = await queues(VisibleScope()), await queues(scope)
    places = ("parent", "depth")
    rows = [{k: v for k, v in row.items() if k not in places} for row in seen["queues"]]
    assert rows == [
        {k: v for k, v in row.items() if k not in places}
        for row in whole["queues"]
        if scope.sees_queue(row["name"])
    ]
    if scope.nodes:
        assert (seen["capacity"], seen["free"]) == (whole["capacity"], whole["free"])


async def test_jobs_are_not_found_by_the_name_of_a_hidden_queue():
    scope = VisibleScope(frozenset({TEAMS[0]}), frozenset({f"queue-of-{TEAMS[0]}"}), nodes=False)
    reader = ViewReader(board(), AccessRights(Judge(scope)))

    async def count(word: str) -> int:
        document: Any = json.loads((await reader.jobs(ANN, ListWindow(find=word))).body)
        return sum(document[f"{part}_in_all"] for part in ("waiting", "running", "finished"))

    assert await count("job90")
    assert await count(f"queue-of-{TEAMS[0]}")
    assert not await count(f"queue-of-{TEAMS[2]}"), "job90 is in it"


@pytest.mark.parametrize("nodes", [True, False])
async def test_requests_are_measured_alike_by_viewers_who_see_fewer_nodes(nodes: bool):
    scope = VisibleScope(frozenset({TEAMS[1]}), None, nodes)
    whole = ViewReader(board(), AccessRights(Judge(VisibleScope())))
    seen = ViewReader(board(), AccessRights(Judge(scope)))
    name = f"{TEAMS[1]}/job82~0123"
    ours, theirs = await seen.job(ANN, name), await whole.job(ANN, name)
    assert ours is not None
    assert theirs is not None
    assert json.loads(ours.body)["waiting"]["milli"] == json.loads(theirs.body)["waiting"]["milli"]


def test_a_redactor_that_follows_equals_a_new_one():
    """Copies of gangs in hidden queues are cached; a gang that has changed must not be stale."""
    scope = VisibleScope(None, frozenset({f"queue-of-{TEAMS[0]}"}), nodes=True)
    redactor, view = ViewRedactor(), whole_view()
    name = GangId(f"{TEAMS[1]}/job82~0123")
    for priority in (0, 1, 2):
        gangs = {**view.gangs, name: replace(view.gangs[name], priority=priority)}
        moment = replace(view, gangs=gangs)
        assert redactor.redact_view(moment, scope).gangs == (
            ViewRedactor().redact_view(moment, scope).gangs
        )
    shrunk = replace(view, gangs={name: view.gangs[name]})
    assert list(redactor.redact_view(shrunk, scope).gangs) == [name]
