"""The documents for viewers who may not see everything."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from functools import partial
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.given import ask, job, node, schedule
from windlass.model.jobs import GangId
from windlass.model.nodes import Topology
from windlass.model.queues import Queue
from windlass.model.viewers import ReviewUnavailable, Right, Viewer
from windlass.state.cluster import Cluster
from windlass.web.auth.authorization import AccessRights, VisibleScope, namespace_of
from windlass.web.auth.ttl_cache import TtlCache, for_seconds
from windlass.web.documents.jobs import TOP, JobLists
from windlass.web.documents.live_state import LiveState
from windlass.web.feed.gang_members import GangMemberIndex
from windlass.web.feed.view import ClusterView, ViewExtras
from windlass.web.redact.text import redact_room, redact_sentence
from windlass.web.redact.viewer import MOST_KEPT, VersionedDocument, ViewReader
from windlass.web.schema.documents import ClusterDocument, FinishedJob, RoomDocument, StartRow
from windlass.workloads.kinds.table import membership
from windlass.workloads.objects.annotations import GANG, MINIMUM
from windlass.workloads.objects.wire import ObjectMeta, OwnerRef, Pod

TEAMS = ("red", "blue", "green")
NAMES = st.frozensets(st.sampled_from(TEAMS))
QUEUES = NAMES.map(lambda some: frozenset(f"q-{each}" for each in some))
SCOPES = st.builds(VisibleScope, NAMES, QUEUES, st.booleans())
DOCUMENTS = ("cluster", "queues", "jobs", "decisions")
ANN = Viewer("ann")


class Judge:
    """A reviewer that grants the rights of a scope, and counts the reviews."""

    def __init__(self, scope: VisibleScope) -> None:
        self.scope = scope
        self.asked = Counter[Right]()

    async def viewer(self, token: str) -> Viewer | None:
        return Viewer(token) if token != "bad" else None

    async def may(self, viewer: Viewer, right: Right) -> bool:
        self.asked[right] += 1
        if right.resource == "nodes":
            return self.scope.nodes
        if right.resource == "queues":
            return self.scope.sees_queue(right.name or "every queue")
        return self.scope.sees_gang(f"{right.namespace or 'every namespace'}/")


def gang(team: str, number: int, count: int = 1) -> Any:
    return job(
        f"{team}/job{number}~0123",
        count,
        ask(gpus=1),
        queue=f"q-{team}",
        user=f"user-of-{team}",
        namespace=team,
    )


def shown() -> LiveState:
    """A board with three teams on three nodes of two GPUs: jobs run, and one of each team waits."""

    def room(_cluster: Cluster, _plan: Any, _gang: GangId) -> list[str]:
        queues = [f"queue q-{team} has 2 GPUs and may lose 1" for team in TEAMS]
        return [*queues, "next it would displace blue/job0~0123 (share)", "1 GPU is free"]

    queues = [Queue("all"), *(Queue(f"q-{team}", parent="all") for team in TEAMS)]
    nodes = [node(f"n-{team}", gpus=2, labels={"rack": f"r-{team}"}) for team in TEAMS]
    jobs = [gang(team, number) for team in TEAMS for number in (0, 1)]
    late = [gang(team, 9, 4) for team in TEAMS]
    there = schedule(Topology("net", ("rack",)), *nodes, *queues, *jobs, *late)
    made, after = LiveState("run", tell_room=room), there.carried_out()
    made.note(after, there.plan)
    ended = [
        FinishedJob(f"{team}/old", "old", f"q-{team}", f"user-of-{team}", team, 0, 1, 2)
        for team in TEAMS
    ]
    made.show(after, there.plan, ViewExtras(finished=ended))
    return made


def members_of(view: ClusterView) -> GangMemberIndex:
    members = GangMemberIndex()
    members.follow(view)
    return members


BOARD = shown()
assert BOARD.documents.shown is not None
VIEW = BOARD.documents.shown.view
RACKS_OF = {team: set[str]() for team in TEAMS}
"""The racks on which the gangs of each team run."""
for each in msgspec.to_builtins(JobLists(VIEW, members_of(VIEW)).document())["running"]:
    RACKS_OF[each["queue"][2:]] |= {f"r-{name[2:]}" for name in each["nodes"]}


async def read(reader: ViewReader, name: str) -> VersionedDocument:
    return await (reader.jobs(ANN, TOP) if name == "jobs" else reader.document(ANN, name))


async def document_for(scope: VisibleScope, name: str) -> Any:
    return json.loads((await read(ViewReader(BOARD, AccessRights(Judge(scope))), name)).body)


async def all_documents(scope: VisibleScope) -> dict[str, Any]:
    reader = ViewReader(BOARD, AccessRights(Judge(scope)))
    found = {name: json.loads((await read(reader, name)).body) for name in DOCUMENTS}
    found["cycle"] = json.loads(await reader.cycle(ANN, 1) or b"null")
    for team in TEAMS:
        found[team] = json.loads(await reader.room(ANN, f"{team}/job9~0123") or b"null")
        for number in (0, 9):
            one = await reader.job(ANN, f"{team}/job{number}~0123")
            found[f"{team} {number}"] = json.loads(one.body if one else b"null")
    return found


@given(SCOPES)
@settings(max_examples=30, deadline=None)
async def test_hidden_gangs_queues_and_racks_are_not_named(scope: VisibleScope):
    text = json.dumps(await all_documents(scope))
    for team in TEAMS:
        if not scope.sees_gang(f"{team}/"):
            assert f"{team}/job" not in text
            assert f"{team}/old" not in text
            assert f"user-of-{team}" not in text
            assert f'"{team}"' not in text.replace(f'"{team}": null', "")
        if not scope.sees_queue(f"q-{team}"):
            assert f"q-{team}" not in text
    own = {rack for team in TEAMS if scope.sees_gang(f"{team}/") for rack in RACKS_OF[team]}
    for team in TEAMS:
        assert (f'"r-{team}"' in text) == (scope.nodes or f"r-{team}" in own)
    assert "q-red" in text or not scope.sees_queue("q-red")


@given(SCOPES)
@settings(max_examples=30, deadline=None)
async def test_visible_jobs_are_listed_as_for_everybody(scope: VisibleScope):
    whole, seen = await document_for(VisibleScope(), "jobs"), await document_for(scope, "jobs")
    for part in ("running", "finished"):
        mine = [each["gang"] for each in whole[part] if scope.sees_gang(each["gang"])]
        assert [each["gang"] for each in seen[part]] == mine
    assert seen["running_in_all"] == len(seen["running"])
    assert seen["waiting_in_all"] == len(seen["waiting"])


@given(SCOPES)
@settings(max_examples=30, deadline=None)
async def test_the_map_shows_all_occupied_gpus_to_viewers_who_may_list_nodes(scope: VisibleScope):
    whole, seen = (
        await document_for(VisibleScope(), "cluster"),
        await document_for(scope, "cluster"),
    )
    if scope.nodes:
        assert seen["nodes"] == whole["nodes"]
        for part, column in (("given", "gpu"), ("given", "milli"), ("held", "gpu")):
            assert seen[part][column] == whole[part][column]
    _check(msgspec.convert(seen, ClusterDocument))


def _check(seen: ClusterDocument) -> None:
    """Check that every index in the document is valid."""
    gpus = sum(seen.nodes.gpus)
    assert all(each < gpus for each in (*seen.given.gpu, *seen.held.gpu, *seen.unhealthy))
    assert all(each < len(seen.tasks.name) for each in seen.given.task)
    assert all(each < len(seen.gangs.name) for each in (*seen.tasks.gang, *seen.held.gang))
    assert all(each < len(seen.queues) for each in seen.gangs.queue)
    assert all(each < len(seen.users) for each in seen.gangs.user)
    assert all(each < len(seen.racks.name) for each in seen.nodes.rack)
    assert all(each < len(seen.models) for each in seen.nodes.model)
    assert all(each < len(seen.namespaces) for each in seen.gangs.namespace)
    assert all(each < len(seen.domains) for each in seen.nodes.domain)
    assert seen.nodes.first == [sum(seen.nodes.gpus[:at]) for at in range(len(seen.nodes.gpus))]


async def test_viewers_who_may_see_everything_share_the_cached_documents():
    reader = ViewReader(BOARD, AccessRights(Judge(VisibleScope())))
    for name in ("cluster", "queues", "decisions"):
        shared = BOARD.documents.answer(name)
        assert shared is not None
        assert (await reader.document(ANN, name)).body is shared.body


async def test_a_viewer_without_rights_sees_an_empty_cluster():
    seen = await all_documents(VisibleScope(frozenset(), frozenset(), nodes=False))
    assert seen["cluster"]["nodes"]["name"] == []
    assert seen["queues"]["queues"] == []
    assert (seen["queues"]["capacity"], seen["queues"]["free"]) == (0, 0)
    assert [seen["jobs"][part] for part in ("waiting", "running", "finished")] == [[], [], []]
    assert (seen["cycle"]["placed"], seen["cycle"]["waiting"]) == ([], [])
    assert set(seen["decisions"]["cycles"]["bound"]) == {0}
    assert seen["red"] is None


async def test_a_queue_is_below_its_nearest_visible_ancestor():
    seen = await document_for(VisibleScope(None, frozenset({"q-red"}), nodes=True), "queues")
    (row,) = seen["queues"]
    assert (row["name"], row["parent"], row["depth"]) == ("q-red", "", 0)


async def test_documents_for_different_rights_have_different_tags():
    tags = set()
    for teams in (set(), {"red"}, {"blue"}):
        scope = VisibleScope(frozenset(teams), frozenset(), nodes=False)
        reader = ViewReader(BOARD, AccessRights(Judge(scope)))
        tags.add((await read(reader, "jobs")).tag)
    assert len(tags) == 3


async def test_number_of_waiting_gangs_needs_the_right_to_list_all_pods():
    part = VisibleScope(frozenset({"red"}), frozenset({"q-red"}), nodes=True)
    assert (await all_documents(part))["red 9"]["waiting_in_all"] is None
    whole = VisibleScope(None, frozenset({"q-red"}), nodes=True)
    assert (await all_documents(whole))["red 9"]["waiting_in_all"] == len(TEAMS)


async def test_a_cycle_has_only_visible_queues_and_gangs():
    seen = await all_documents(VisibleScope(frozenset({"red"}), frozenset({"q-red"}), nodes=True))
    assert seen["cycle"]["shares"] == [], "only the queue above all of them is a top queue"
    (gangs,) = seen["decisions"]["cycles"]["gangs"]
    assert gangs
    assert all(each.startswith("red/") for each in gangs)
    whole = await all_documents(VisibleScope(frozenset({"red"}), frozenset({"all"}), nodes=True))
    assert [each["queue"] for each in whole["cycle"]["shares"]] == ["all"]


async def test_past_numbers_of_gangs_need_the_right_to_list_all_pods():
    part = VisibleScope(frozenset({"red"}), frozenset({"q-red"}), nodes=True)
    past = (await document_for(part, "queues"))["past"]
    assert (past["waiting"], past["running"]) == ([], [])
    past = (await document_for(VisibleScope(None, frozenset({"q-red"}), nodes=True), "queues"))[
        "past"
    ]
    assert (past["waiting"], past["running"]) == ([3], [6])


async def test_room_omits_sentences_about_hidden_queues_and_gangs():
    scope = VisibleScope(frozenset({"red"}), frozenset({"q-red"}), nodes=False)
    seen = (await all_documents(scope))["red"]["sentences"]
    assert seen == [
        "queue q-red has 2 GPUs and may lose 1",
        "1 GPU is free",
        "3 more sentences are about queues or jobs that you may not see",
    ]


def test_suggested_changes_omit_hidden_names():
    said = ["if blue/job0~0123 were evicted", "with 1 GPU less", "in queue q-blue"]
    starts = [StartRow("kind", sentence, allowed=True) for sentence in said]
    scope = VisibleScope(frozenset({"red"}), frozenset({"q-red"}), nodes=False)
    room = RoomDocument("red/a", 1, [], starts, ["1 other change would", "not blue/x~1"])
    seen = redact_room(room, scope, {"q-blue"})
    assert seen.starts == [starts[1]]
    assert seen.notes == [
        "1 other change would",
        "3 more sentences are about queues or jobs that you may not see",
    ]


@pytest.mark.parametrize(
    ("sentence", "expected"),
    [
        ("places are reserved for blue/x~1 in 5 s", "places are reserved for another gang in 5 s"),
        ("places are reserved for red/x~1 in 5 s", "places are reserved for red/x~1 in 5 s"),
        ("queue q-blue has 8 of 8 GPUs", "another queue has 8 of 8 GPUs"),
        ("queue q-blue-2 is full", "queue q-blue-2 is full"),
        ("3 nodes: taint nvidia.com/gpu is set", "3 nodes: taint nvidia.com/gpu is set"),
        ("pod blue/x-0/uid, and more", "pod another gang, and more"),
    ],
)
def test_hidden_names_in_a_sentence_are_replaced(sentence: str, expected: str):
    scope = VisibleScope(frozenset({"red"}), frozenset({"q-red", "q-blue-2"}), nodes=False)
    assert redact_sentence(sentence, scope, {"q-blue"}) == expected


# --- rights ---


async def test_a_right_is_reviewed_once_a_minute():
    judge, clock = Judge(VisibleScope(frozenset({"red"}), frozenset(), nodes=False)), [0.0]
    reader = ViewReader(BOARD, AccessRights(judge, lambda: clock[0]))
    for _ in range(3):
        await read(reader, "jobs")
    assert set(judge.asked.values()) == {1}
    clock[0] = 61.0
    judge.scope = VisibleScope(frozenset(), frozenset(), nodes=False)
    assert json.loads((await read(reader, "jobs")).body)["running"] == []
    assert set(judge.asked.values()) == {2}


async def test_ttl_cache_shares_answers_and_is_bounded():
    shared, asked = TtlCache[int, int](3, for_seconds(10), lambda: 0.0), Counter[int]()

    async def ask_about(key: int) -> int:
        asked[key] += 1
        await asyncio.sleep(0)
        return key

    keys = [1, 1, 2, 3, 4, 5]
    found = await asyncio.gather(*(shared.of(key, partial(ask_about, key)) for key in keys))
    assert found == keys
    assert asked[1] == 1
    assert len(shared) == 3


async def test_ttl_cache_does_not_keep_a_failure():
    shared, answers = TtlCache[int, int](3, for_seconds(10), lambda: 0.0), [0, 7]

    async def ask_about() -> int:
        if not (found := answers.pop(0)):
            raise ReviewUnavailable("not now")
        return found

    with pytest.raises(ReviewUnavailable):
        await shared.of(1, ask_about)
    assert await shared.of(1, ask_about) == 7


async def test_number_of_kept_redacted_documents_is_bounded():
    judge = Judge(VisibleScope(frozenset(), frozenset(), nodes=False))
    reader = ViewReader(BOARD, AccessRights(judge))
    for number in range(3 * MOST_KEPT):
        judge.scope = VisibleScope(frozenset({TEAMS[number % 3]}), frozenset(), nodes=False)
        await reader.document(Viewer(f"v{number}"), ("cluster", "queues")[number % 2])
    assert reader.kept <= MOST_KEPT


@pytest.mark.parametrize("labels", [{}, {GANG: "team"}, {GANG: "team", MINIMUM: "2"}], ids=str)
def test_the_name_of_a_gang_begins_with_its_namespace(labels: dict[str, str]):
    owner = OwnerRef("Job", "train", "uid-1", "batch/v1", controller=True)
    for owners in ([], [owner]):
        meta = ObjectMeta("pod", "red", "uid", labels=labels, owner_references=owners)
        found = membership(Pod(meta), lambda _ref, _namespace: None)
        assert namespace_of(found.gang) == "red"
