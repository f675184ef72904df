"""The commands that look at a cluster, against a real one with a real scheduler."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.live.support.bound_pods import wait_until
from tests.live.support.kubectl import Kubectl
from tests.live.support.scene import Scene, reason_of, scene
from tests.live.support.shell import Shell, call
from windlass.config import read_config
from windlass.daemon.loop.read_cluster import ClusterReading, follow_cluster
from windlass_lab.control_plane.plane import Plane


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=2, team=16) as made:
        yield made
        made.check()


async def test_a_submitted_command_is_bound_whole_and_its_pods_find_each_other(
    made: Scene, windlass: Shell
) -> None:
    await made.leading()
    words = ("-n", made.key, "--image", "train:1", "--count", "2", "--gpus", "8", "--name")
    first = await windlass("submit", *words, "first", "--", "torchrun", "--verbose", "train.py")
    assert (first.status, first.err) == (0, "")
    assert first.out.startswith(f"Submitted {made.key}/first: 2 pods that start together, each")
    await made.wait_running(("first", 2))
    assert {each["spec"]["nodeName"] for each in await made.pods("first")} == set(nodes(made))
    service = await made.get(f"/api/v1/namespaces/{made.key}/services/first")
    assert service["metadata"]["ownerReferences"][0]["kind"] == "Job"
    (pod, _) = await made.pods("first")
    assert f"{pod['spec']['hostname']}.{pod['spec']['subdomain']}" == "first-0.first"
    again = await windlass("submit", *words, "first", "--", "a")
    assert (again.status, again.out) == (2, "")
    assert "already exists" in again.err


async def test_a_snapshot_of_a_cluster_is_one_that_other_commands_read(
    made: Scene, windlass: Shell, tmp_path: Path
) -> None:
    await made.job("here", 2, 8, "team")
    await made.wait_there("here", 2)
    file = str(tmp_path / "now.json")

    async def starts() -> bool:  # new nodes are kept away from by a taint for a moment
        assert (await windlass("snapshot", "--out", file)).status == 0
        told = await asyncio.to_thread(call, "explain", f"{made.key}/here", "--snapshot", file)
        return told.out.startswith(f"{made.key}/here starts now with 2 tasks")

    await wait_until(starts, "the snapshot says that it starts now")
    planned = await asyncio.to_thread(call, "plan", file)
    assert "2 nodes with 16 GPUs, 1 gang, 2 tasks" in planned.out


async def test_a_job_is_told_of_before_it_is_submitted_and_if_it_is_there_already(
    made: Scene, windlass: Shell, tmp_path: Path
) -> None:
    words = ("--image", "i", "--count", "9", "--gpus", "8", "--name", "here", "-n", made.key)
    printed = await windlass("submit", "--queue", f"{made.key}-team", *words, "--print", "--", "a")
    (tmp_path / "here.yaml").write_text(printed.out)
    asked = ("explain", "--before", str(tmp_path / "here.yaml"), "-n", made.key)
    first = await windlass(*asked)
    assert first.out.startswith(f"{made.key}/here can never start with the 9 tasks"), first.err
    assert "exists already" not in first.out
    await made.job("here", 9, 8, "team")
    await made.wait_there("here", 9)
    again = " ".join((await windlass(*asked)).out.split())
    assert f"{made.key}/here exists already; the answer is for another job" in again


async def test_a_queue_that_is_not_there_is_a_slip_that_is_told_before_anything_is_made(
    made: Scene, windlass: Shell
) -> None:
    words = ("-n", made.key, "--image", "i", "--queue", f"{made.key}-tem", "--", "a")
    slip = await windlass("submit", *words)
    assert (slip.status, slip.out) == (2, "")
    assert f'did you mean "{made.key}-team"?' in slip.err
    assert (await made.get(f"/apis/batch/v1/namespaces/{made.key}/jobs"))["items"] == []


async def test_jobs_queues_and_top_show_what_runs_and_what_waits(
    made: Scene, windlass: Shell
) -> None:
    await made.leading()
    await made.job("runs", 1, 8, "team")
    await made.wait_running(("runs", 1))
    await made.job("waits", 2, 8, "team")
    await made.wait_reasons("waits", 2)
    jobs = (await windlass("jobs", "-n", made.key, "--json")).json["jobs"]
    assert [(each["name"], each["state"], each["gpus"]) for each in jobs] == [
        ("waits", "waiting", 16.0),
        ("runs", "running", 8.0),
    ]
    waits = (await made.pods("waits"))[0]
    assert jobs[0]["reason"] == reason_of(waits)
    running = await windlass("jobs", "-A", "--state", "running", "--queue", f"{made.key}-team")
    assert running.out.splitlines()[1].split()[:3] == [
        f"{made.key}/runs",
        f"{made.key}-team",
        "running",
    ]
    found = (await windlass("queues", "--json")).json["queues"]
    (team,) = [each for each in found if each["queue"] == f"{made.key}-team"]
    assert (team["guarantee_gpus"], team["trouble"]) == (16.0, None)
    frame = (await windlass("top", "--once")).out
    assert "2 nodes  16 GPUs  50 % in use" in frame
    assert "waits" in frame
    assert "no leader" not in frame


async def test_commands_need_not_be_told_what_the_leader_was_told(
    made: Scene, windlass: Shell
) -> None:
    await made.leading(scheduler_names="another", default_queue=f"{made.key}-team")
    windlass.settings.write_text(yaml.safe_dump({"lease": {"name": made.key}}))
    await windlass(
        "submit", "-n", made.key, "--image", "i", "--gpus", "8", "--name", "a", "--", "a"
    )
    await made.wait_running(("a", 1))
    (row,) = (await windlass("jobs", "-n", made.key, "--json")).json["jobs"]
    assert (row["name"], row["state"]) == ("a", "running")
    assert "2 nodes  16 GPUs  50 % in use" in (await windlass("top", "--once")).out


async def test_top_shows_what_happens_while_it_looks(made: Scene, windlass: Shell) -> None:
    await made.leading()
    used: list[int] = []
    reach = {"kubeconfig": str(windlass.kubeconfig)}
    config = read_config(str(windlass.settings), {}, reach)

    def show(sight: ClusterReading) -> None:
        used.append(sum(len(task.devices) for task in sight.cluster.tasks.values()))

    following = asyncio.create_task(follow_cluster(config, 0.1, show))
    try:
        await wait_until(lambda: _holds(used[-1:] == [0]), "nothing is in use")
        await made.job("runs", 2, 8, "team")
        await wait_until(lambda: _holds(used[-1:] == [16]), "16 GPUs are in use")
    finally:
        following.cancel()
        await asyncio.wait([following])
    # The two binds are two writes, and a reader may look between them.
    assert used == sorted(used)


async def _holds(it: bool) -> bool:
    return it


async def test_an_explanation_has_the_words_that_the_scheduler_wrote_on_the_pods(
    made: Scene, windlass: Shell
) -> None:
    await made.leading()
    await made.job("large", 3, 8, "team")
    await made.wait_reasons("large", 3)
    told = await windlass("explain", f"{made.key}/large")
    assert (told.status, told.err) == (0, "")
    message = message_of((await made.pods("large"))[0])
    first = message.partition(";")[0].partition(" (number")[0]
    assert first.lower() in " ".join(told.out.lower().split())
    short = await windlass("explain", "-n", made.key, "large")
    assert short.out == told.out
    pod = (await made.pods("large"))[0]["metadata"]["name"]
    assert (await windlass("explain", f"{made.key}/{pod}")).out == told.out
    slip = await windlass("explain", f"{made.key}/lage")
    assert (slip.status, slip.out) == (2, "")
    assert f'did you mean "{made.key}/large"' in slip.err


async def test_a_job_is_explained_before_it_is_submitted(
    made: Scene, windlass: Shell, tmp_path: Path
) -> None:
    await made.leading()
    file = tmp_path / "large.yaml"
    words = ("-n", made.key, "--image", "train:1", "--gpus", "8", "--name", "large", "--print")
    queue = ("--queue", f"{made.key}-team")
    printed = await windlass("submit", *words, *queue, "--count", "3", "--", "train.py")
    file.write_text(printed.out)
    told = await windlass("explain", "--before", str(file))
    assert (told.status, told.err) == (0, "")
    said = " ".join(told.out.split())
    assert said.startswith(f"{made.key}/large can never start with the 3 tasks it needs")
    assert "It would start at once with a minimum of 2 tasks instead of 3." in said
    assert "would start at once in queue" not in said  # no other lets its namespace in
    small = await windlass("submit", *words, *queue, "--count", "2", "--", "train.py")
    file.write_text(small.out)
    told = await windlass("explain", "--before", str(file))
    assert f"{made.key}/large starts now with 2 tasks" in told.out
    assert await made.pods("large") == []


async def test_rights_to_one_namespace_are_enough_to_see_its_jobs_and_what_they_were_told(
    made: Scene, windlass: Shell, plane: Plane, kubectl: Kubectl
) -> None:
    await made.leading()
    await made.job("mine", 2, 8, "team")
    await made.wait_running(("mine", 2))
    binding = ("--clusterrole=view", f"--user={made.key}", "-n", made.key)
    kubectl("create", "rolebinding", "looks", *binding)
    user = Shell(plane.user_kubeconfig(made.key), windlass.settings)
    (mine,) = (await user("jobs", "-n", made.key, "--json")).json["jobs"]
    assert (mine["name"], mine["state"], mine["nodes"]) == ("mine", "running", 2)
    await made.job("waits", 1, 1, "team")
    await made.wait_reasons("waits", 1)
    told = " ".join((await user("explain", f"{made.key}/waits")).out.split())
    assert told.startswith(f"{made.key}/waits waits for 1 task - ")
    assert message_of((await made.pods("waits"))[0]) in told
    told = (await user("explain", f"{made.key}/mine")).out
    assert told.startswith(f"{made.key}/mine runs; it needs 2 tasks and has 2\n")
    assert "cannot list resource" in told
    refused = await user("top", "--once")
    assert (refused.status, refused.out) == (2, "")
    assert "cannot list resource" in refused.err
    assert len(refused.err.splitlines()) == 1


async def test_kubectl_finds_the_same_program_as_its_plugin_and_completes_it(
    made: Scene, kubectl: Kubectl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    scripts = {"kubectl-windlass": "", "kubectl_complete-windlass": ".commands.completion"}
    for name, module in scripts.items():
        function = "for_kubectl" if module else "main"
        lines = f"from windlass.cli{module} import {function}\n{function}()\n"
        (tmp_path / name).write_text(f"#!{sys.executable}\n{lines}")
        (tmp_path / name).chmod(0o755)
    reach = ("--kubeconfig", str(kubectl.kubeconfig))
    found = await asyncio.to_thread(words_of, kubectl, "windlass", "queues", "--json", *reach)
    assert f"{made.key}-team" in [each["queue"] for each in json.loads(found)["queues"]]
    offered = await asyncio.to_thread(words_of, kubectl, "__complete", "windlass", "que")
    assert offered.split() == ["queues", ":4"]


def words_of(kubectl: Kubectl, *words: str) -> str:
    """What kubectl prints; its own options would come before the name of a plug-in."""
    done = subprocess.run([kubectl.path, *words], capture_output=True, text=True, check=True)
    return done.stdout


async def test_evictions_are_paused_and_resumed_and_the_leader_is_named(
    made: Scene, windlass: Shell
) -> None:
    await made.leading()
    paused = await windlass("pause")
    assert paused.out.startswith("No evictions from now on; r0_")
    told = await windlass("doctor", "--json")
    assert "evictions are paused, so no room is made" in [each["said"] for each in told.json]
    assert (await windlass("resume")).out.startswith("Evictions are planned again; r0_")


def test_a_server_that_does_not_answer_is_one_sentence(tmp_path: Path, plane: Plane) -> None:
    written = yaml.safe_load(plane.kubeconfig.read_text())
    written["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(written))
    for command in (["queues"], ["jobs", "-A"], ["explain", "x"], ["doctor"], ["pause"]):
        answer = call(*command, "--kubeconfig", str(file))
        assert (answer.status, answer.out) == (2, ""), command
        assert len(answer.err.splitlines()) == 1
        assert "https://127.0.0.1:1" in answer.err


def message_of(pod: dict[str, Any]) -> str:
    conditions = pod["status"]["conditions"]
    (found,) = [each["message"] for each in conditions if each["type"] == "PodScheduled"]
    return found


def nodes(made: Scene) -> list[str]:
    return [f"{made.key}-{number}" for number in range(2)]
