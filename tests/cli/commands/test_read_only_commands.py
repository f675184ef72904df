"""What `windlass queues`, `jobs` and `top` make of objects that were read from a cluster."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from rich.console import Console

from tests.support.kube_given import Stage, crew, job, node, pod, queue
from windlass.cli.commands import jobs, queues, top
from windlass.cli.live_view.view import TerminalSize
from windlass.daemon.loop.read_cluster import Sight
from windlass.engine.cycle import plan
from windlass.kube.refs import ObjectObserved
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import GANG, GROUP
from windlass.workloads.pods.task import task_id


def written(name: str, parent: str = "", status: dict[str, Any] | None = None, **spec: Any) -> Any:
    """A Queue object with its status."""
    about = spec | ({"parent": parent} if parent else {})
    text = json.dumps({"metadata": {"name": name}, "spec": about, "status": status or {}})
    return msgspec.json.decode(text, type=wire.Owner)


def seen(*things: Any) -> Sight:
    """A cluster as a command sees it."""
    cluster = Stage(*things).cluster
    pods = {task_id(each): each for each in things if isinstance(each, wire.Pod)}
    return Sight(cluster, plan(cluster), pods, leader="")


# --- queues


def test_queues_stand_below_their_parents_with_what_their_status_says():
    status = {
        "share": {"gpu": 12},
        "allocated": {"gpu": "9.5"},
        "borrowed": {"gpu": "1.5"},
        "waiting": {"gangs": 3},
    }
    team = written("team", "company", status, guarantee={"gpu": 8}, limit={"gpu": 16})
    lines = queues.lines_of([team, written("company")])
    assert [(each.name, each.depth) for each in lines] == [("company", 0), ("team", 1)]
    head, company, told = "\n".join(queues.told(lines)).split("\n")
    assert head.split() == list(queues.HEAD)
    assert company.split() == ["company", "0", "-", "-", "-", "none", "-"]
    assert told.split() == ["team", "8", "12", "9.5", "1.5", "16", "3"]


def test_a_queue_that_is_not_ready_is_marked_and_told():
    bad = {"type": "Ready", "status": "False", "reason": "ParentUnknown"}
    bad |= {"message": "no such parent", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    lines = queues.lines_of([written("lost", "nowhere", {"conditions": [bad], "allocated": {}})])
    shown = list(queues.told(lines))
    assert shown[0].split("\n")[1].startswith("lost !")
    assert shown[1] == "lost is not ready: no such parent"


def test_queues_in_a_circle_are_all_shown():
    lines = queues.lines_of([written("a", "b"), written("b", "a"), written("c", "b")])
    assert {each.name for each in lines} == {"a", "b", "c"}


def test_a_status_that_cannot_be_read_is_not_known():
    (line,) = queues.lines_of([written("q", status={"allocated": {"gpu": -1}})])
    assert line.allocated is None


def test_no_queues_are_told_in_a_sentence():
    assert next(queues.told([])).startswith("There are no queues yet")


# --- jobs


def test_pods_are_shown_as_the_gangs_that_the_daemon_makes_of_them():
    owner = job("train", 3)
    members = [pod(f"train-{i}", 2, owner=owner, queue="team") for i in range(3)]
    (row,) = jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), owner, *members))
    assert (row.namespace, row.name, row.job, row.queue) == ("ml", "train", "train", "team")
    assert (row.state, row.pods_on_nodes, row.pods, row.milli_gpus) == ("waiting", 0, 3, 6000)


def test_a_job_runs_once_its_minimum_is_on_nodes():
    on = {"node": "n1", "phase": "Running"}
    three = [pod(f"w-{i}", 1, gang=("w", 2), **(on if i < 2 else {})) for i in range(3)]
    (row,) = jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), *three))
    assert (row.state, row.pods_on_nodes, row.pods, row.nodes) == ("running", 2, 3, 1)
    waits = [pod("v-0", 1, gang=("v", 2), **on), pod("v-1", 1, gang=("v", 2))]
    (row,) = jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), *waits))
    assert (row.state, row.pods_on_nodes) == ("waiting", 1)


def test_a_job_that_lacks_one_of_its_groups_waits_however_many_others_are_there():
    groups = [{"name": "leader"}, {"name": "workers", "minimum": 2}]
    meta = {"name": "train", "namespace": "ml", "uid": "train-uid"}
    written = json.dumps({"metadata": meta, "spec": {"groups": groups}})
    gang = ObjectObserved("Gang.windlass.dev", msgspec.json.decode(written, type=wire.Owner))
    named = {GANG: "train", GROUP: "workers"}
    workers = [pod(f"w{i}", 1, labels=named, node="n1", phase="Running") for i in range(3)]
    waits = pod("l", 1, labels=named | {GROUP: "leader"})
    (row,) = jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), gang, *workers, waits))
    assert (row.state, row.pods_on_nodes) == ("waiting", 3)


def test_why_a_job_waits_is_what_was_written_on_its_pods():
    said = {"type": "PodScheduled", "status": "False", "reason": "QueueFull", "message": "Full"}
    waits = pod("a", 1, status={"conditions": [said]})
    (row,) = jobs.rows_of(seen(queue("team", "ml"), waits))
    assert (row.reason, row.message) == ("QueueFull", "Full")


def test_pods_of_other_schedulers_are_no_jobs_of_ours():
    others = pod("x", 1, node="n1", schedulerName="default-scheduler")
    assert jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), others)) == []


def test_who_waits_stands_first_and_the_oldest_in_front():
    late, early = "2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"
    things = [
        pod("runs", 1, node="n1", phase="Running", created=early),
        pod("new", 1, created=late),
        pod("old", 1, created=early),
    ]
    rows = jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), *things))
    assert [row.name for row in rows] == ["old", "new", "runs"]


# --- top


@pytest.mark.parametrize(
    "size", [TerminalSize(80, 24), TerminalSize(160, 50), TerminalSize(40, 10)]
)
def test_a_frame_fits_the_terminal_it_is_made_for(size: TerminalSize):
    things = [queue("team", "ml"), *(node(f"n{i}", 8) for i in range(12)), *crew("w", 40, 8)]
    console = Console(width=size.width, height=size.height, record=True, file=None)
    with console.capture() as caught:
        console.print(top.frame(seen(*things), size))
    lines = caught.get().rstrip("\n").split("\n")
    assert len(lines) <= size.height
    assert max(map(len, lines)) <= size.width
    assert lines[0].startswith("Windlass")


def test_a_frame_shows_what_is_in_use_who_waits_and_that_nobody_leads():
    on = {"node": "n1", "phase": "Running"}
    held = [pod("a", 6, **on)]
    things = [queue("team", "ml", guarantee={"gpu": 8}), node("n1", 8), *held, *crew("big", 2, 8)]
    console = Console(width=100, height=30)
    with console.capture() as caught:
        console.print(top.frame(seen(*things), TerminalSize(100, 30)))
    text = caught.get()
    assert "8 GPUs  75 % in use" in text
    assert "nobody leads" in text
    assert "██████··" in text
    assert "big" in text
