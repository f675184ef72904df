"""`windlass queues`, `jobs` and `top`, given the objects of a cluster."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from rich.console import Console

from tests.support.kube_given import Stage, crew, job, node, pod, queue
from windlass.cli.commands import jobs, queues, top
from windlass.cli.live_view.view import TerminalSize
from windlass.daemon.loop.read_cluster import ClusterReading
from windlass.engine.cycle import plan
from windlass.kube.refs import ObjectObserved
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import GANG, GROUP
from windlass.workloads.pods.task import task_id


def written(name: str, parent: str = "", status: dict[str, Any] | None = None, **spec: Any) -> Any:
    """Return a Queue object with its status."""
    spec |= {"parent": parent} if parent else {}
    text = json.dumps({"metadata": {"name": name}, "spec": spec, "status": status or {}})
    return msgspec.json.decode(text, type=wire.Owner)


def seen(*things: Any) -> ClusterReading:
    """Return a cluster as a command reads it."""
    cluster = Stage(*things).cluster
    pods = {task_id(each): each for each in things if isinstance(each, wire.Pod)}
    return ClusterReading(cluster, plan(cluster), pods, leader="")


# --- queues


def test_queues_are_below_their_parents_with_the_numbers_of_their_status():
    status = {
        "share": {"gpu": 12},
        "allocated": {"gpu": "9.5"},
        "borrowed": {"gpu": "1.5"},
        "waiting": {"gangs": 3},
    }
    team = written("team", "company", status, guarantee={"gpu": 8}, limit={"gpu": 16})
    lines = queues.lines_of([team, written("company")])
    assert [(line.name, line.depth) for line in lines] == [("company", 0), ("team", 1)]
    head, company, leaf = "\n".join(queues.queue_lines(lines)).split("\n")
    assert head.split() == list(queues.HEAD)
    assert company.split() == ["company", "0", "-", "-", "-", "none", "-"]
    assert leaf.split() == ["team", "8", "12", "9.5", "1.5", "16", "3"]


def test_a_queue_that_is_not_ready_is_marked_and_explained():
    bad = {"type": "Ready", "status": "False", "reason": "ParentUnknown"}
    bad |= {"message": "no such parent", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    lines = queues.lines_of([written("lost", "nowhere", {"conditions": [bad], "allocated": {}})])
    shown = list(queues.queue_lines(lines))
    assert shown[0].split("\n")[1].startswith("lost !")
    assert shown[1] == "lost is not ready: no such parent."


def test_queues_in_a_circle_of_parents_are_all_shown():
    lines = queues.lines_of([written("a", "b"), written("b", "a"), written("c", "b")])
    assert {line.name for line in lines} == {"a", "b", "c"}


def test_an_invalid_status_counts_as_unknown():
    (line,) = queues.lines_of([written("q", status={"allocated": {"gpu": -1}})])
    assert line.allocated is None


def test_a_cluster_without_queues_gives_one_sentence():
    assert next(queues.queue_lines([])).startswith("There are no queues yet")


# --- jobs


def test_pods_are_grouped_into_gangs_as_the_scheduler_does_it():
    owner = job("train", 3)
    members = [pod(f"train-{i}", 2, owner=owner, queue="team") for i in range(3)]
    (row,) = jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), owner, *members))
    assert (row.namespace, row.name, row.job, row.queue) == ("ml", "train", "train", "team")
    assert (row.state, row.pods_on_nodes, row.pods, row.milli_gpus) == ("waiting", 0, 3, 6000)


def test_a_job_is_running_once_its_minimum_is_on_nodes():
    on = {"node": "n1", "phase": "Running"}
    three = [pod(f"w-{i}", 1, gang=("w", 2), **(on if i < 2 else {})) for i in range(3)]
    (row,) = jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), *three))
    assert (row.state, row.pods_on_nodes, row.pods, row.nodes) == ("running", 2, 3, 1)
    waits = [pod("v-0", 1, gang=("v", 2), **on), pod("v-1", 1, gang=("v", 2))]
    (row,) = jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), *waits))
    assert (row.state, row.pods_on_nodes) == ("waiting", 1)


def test_a_job_without_the_minimum_of_one_group_is_waiting():
    groups = [{"name": "leader"}, {"name": "workers", "minimum": 2}]
    meta = {"name": "train", "namespace": "ml", "uid": "train-uid"}
    written = json.dumps({"metadata": meta, "spec": {"groups": groups}})
    gang = ObjectObserved("Gang.windlass.dev", msgspec.json.decode(written, type=wire.Owner))
    named = {GANG: "train", GROUP: "workers"}
    workers = [pod(f"w{i}", 1, labels=named, node="n1", phase="Running") for i in range(3)]
    waits = pod("l", 1, labels=named | {GROUP: "leader"})
    (row,) = jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), gang, *workers, waits))
    assert (row.state, row.pods_on_nodes) == ("waiting", 3)


def test_the_reason_of_a_waiting_job_is_the_condition_of_its_pods():
    condition = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "QueueFull",
        "message": "Full",
    }
    waits = pod("a", 1, status={"conditions": [condition]})
    (row,) = jobs.rows_of(seen(queue("team", "ml"), waits))
    assert (row.reason, row.message) == ("QueueFull", "Full")


def test_pods_of_other_schedulers_are_not_listed():
    others = pod("x", 1, node="n1", schedulerName="default-scheduler")
    assert jobs.rows_of(seen(queue("team", "ml"), node("n1", 8), others)) == []


def test_waiting_jobs_come_first_and_the_oldest_of_them_first():
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


def test_a_frame_shows_usage_waiting_gangs_and_a_missing_leader():
    on = {"node": "n1", "phase": "Running"}
    held = [pod("a", 6, **on)]
    things = [queue("team", "ml", guarantee={"gpu": 8}), node("n1", 8), *held, *crew("big", 2, 8)]
    console = Console(width=100, height=30)
    with console.capture() as caught:
        console.print(top.frame(seen(*things), TerminalSize(100, 30)))
    text = caught.get()
    assert "8 GPUs  75 % in use" in text
    assert "no leader" in text
    assert "██████··" in text
    assert "big" in text
