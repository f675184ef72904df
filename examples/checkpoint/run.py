"""Preempt a training that saves itself, and see it end as if nothing had happened.

A real API server and the real scheduler; the nodes are played, but the workers of the training are
real processes of this machine. A gang of a higher priority takes their GPUs in the middle. The
scheduler asks them to save, by file or over HTTP, or they save when they are told to end. They
leave, come back, go on from their files, and must end with the weights of a run that nobody
disturbed, to the last bit.

    python examples/checkpoint/run.py --runs 3 --by http
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from train import STEPS

from windlass.checkpoint import protocol
from windlass.checkpoint.store import CheckpointStore
from windlass.kube.client.client import Api, connect
from windlass.kube.client.errors import Conflict
from windlass_lab.control_plane.plane import Plane
from windlass_lab.fake_kubelet import Habits, Kubelet, playing, uniform
from windlass_lab.fake_nodes.labels import GPU
from windlass_lab.live_bench.environment import make_queues
from windlass_lab.live_bench.schedulers import WINDLASS, lines, running

HERE = Path(__file__).parent
WORKERS = 2
PATIENCE_S = 120.0
BUDGET_S, GRACE_S, MARGIN_S = 20, 10, 5
"""How long a save may take, a pod may take to end, and the rest."""
PAUSE_S = "0.05"
"""A step takes so long at first: the training is to be caught in the middle."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
JOBS = "/apis/batch/v1/namespaces/team/jobs"


async def main(runs: int, seed: int, ways: list[str]) -> None:
    """Disturb the training so many times in each way, each time at another step."""
    dice = random.Random(seed)
    waits: list[float] = []
    with tempfile.TemporaryDirectory(prefix="windlass-checkpoints-") as folder:
        say("A run that nobody disturbs ...")
        undisturbed = await asyncio.to_thread(train_alone, Path(folder, "undisturbed"))
        say("Starting a control plane, a node with 2 GPUs, and the scheduler ...")
        async with Plane() as plane, connect(plane.api_access()) as api:
            await prepare(api)
            nodes, habits = uniform(1, gpus=WORKERS), Habits(processes=WORKERS)
            async with (
                playing(plane.api_access(), nodes, habits) as kubelet,
                running(WINDLASS, plane) as scheduler,
            ):
                for number, by in enumerate(ways * runs, 1):
                    place, begun = Path(folder, str(number)), len(kubelet.processes.launched)
                    run = Run(f"train-{number}", place, api, kubelet, begun, by)
                    say(f"Run {number} of {runs * len(ways)}, told by {by}")
                    waits.append(await run.play(dice.randrange(5, 40)))
                    check(weights(run.folder) == undisturbed, "the weights differ")
                    say("  ended with the same weights as the undisturbed run, to the last bit")
                check(kubelet.book.violations() == [], "a GPU was given twice")
                asked = [each for each in lines(scheduler.log) if each["what"] == "save ended"]
                saved = [each for each in asked if each["outcome"] == "saved"]
                meant = sum(by != protocol.RequestMode.SIGNAL for by in ways * runs)
                check(len(saved) == len(asked) == meant, f"of {asked}, {meant} should have saved")
    say(f"The urgent gangs waited {max(waits):.1f} s at most")


@dataclass(frozen=True, slots=True)
class Run:
    """One training that is preempted."""

    name: str
    folder: Path
    api: Api
    kubelet: Kubelet
    first: int
    """So many processes had been started before."""
    by: str
    """How it is told: by signal, file or http."""

    async def play(self, least: int) -> float:
        """Train, take the GPUs away after so many steps, give them back, and see it end.

        Answers how long the gang waited that took them.
        """
        await self.api.post(JOBS, training(self.name, self.folder, self.by))
        await wait_until(lambda: self.have_done(least), f"{least} steps of both workers")
        say(f"  both workers have done {least} steps; a gang of a higher priority comes")
        came = time.monotonic()
        await self.api.post(JOBS, urgent(f"urgent-{self.name}"))
        await wait_until(lambda: self.has_started(f"urgent-{self.name}"), "the start of that gang")
        waited_s = time.monotonic() - came
        say(f"  it had their GPUs after {waited_s:.1f} s")
        check(waited_s < BUDGET_S + GRACE_S + MARGIN_S, "it waited for longer than it should")
        await wait_until(lambda: self.succeeded(f"urgent-{self.name}"), "the end of that gang")
        await wait_until(lambda: self.succeeded(self.name), "the end of the training")
        for index, lives in self.lives().items():
            check(len(lives) > 1, f"worker {index} was not preempted")
            for before, after in pairwise(lives):
                check(before.did == after.began, f"worker {index} lost work, or did it twice")
                say(f"  worker {index} left after step {before.did} and went on from there")
        return waited_s

    async def has_started(self, job: str) -> bool:
        """Do all pods of a Job run, or have they even ended?"""
        status = json.loads(await self.api.get(f"{JOBS}/{job}"))["status"]
        return status.get("ready", 0) == WORKERS or status.get("succeeded", 0) > 0

    async def have_done(self, least: int) -> bool:
        """Have both workers done so many steps?"""
        lives = self.lives()
        return len(lives) == WORKERS and all(life[-1].did >= least for life in lives.values())

    async def succeeded(self, job: str) -> bool:
        """Have all pods of a Job succeeded?"""
        status = json.loads(await self.api.get(f"{JOBS}/{job}"))["status"]
        conditions = {each["type"]: each for each in status.get("conditions", [])}
        check("Failed" not in conditions, f"{job} failed: {conditions}")
        return "Complete" in conditions

    def lives(self) -> dict[str, list[Life]]:
        """What each worker said, process by process."""
        found: dict[str, list[Life]] = {}
        for uid in self.kubelet.processes.launched[self.first :]:
            said = self.kubelet.processes.said(uid)
            if began := re.match(r"worker (\d+) begins after step (\d+)\n", said):
                steps = re.findall(r"^step (\d+) .*\n", said, re.MULTILINE)
                did = int(steps[-1]) if steps else int(began[2])
                found.setdefault(began[1], []).append(Life(int(began[2]), did))
        return dict(sorted(found.items()))


class Life(NamedTuple):
    """One process: after which step it began, and how far it came."""

    began: int
    did: int


def train_alone(folder: Path) -> list[bytes]:
    """The weights of a run that nobody disturbs."""
    command = [sys.executable, str(HERE / "train.py")]
    for index in range(WORKERS):
        told = {"CHECKPOINTS": str(folder), "JOB_COMPLETION_INDEX": str(index)}
        subprocess.run(
            command,
            env=os.environ | ENVIRONMENT | told,
            check=True,
            stdout=subprocess.DEVNULL,
        )
    return weights(folder)


def weights(folder: Path) -> list[bytes]:
    """The last save of every worker, as it lies in the file."""
    return [
        (CheckpointStore(folder / str(index)).at(STEPS) / name).read_bytes()
        for index in range(WORKERS)
        for name in ("weights.npz", "speed.npz", "chance.json")
    ]


async def prepare(api: Api) -> None:
    """A queue for both gangs, and two priorities."""
    await make_queues(api, {"team": {"namespaces": ["team"], "guarantee": {"gpu": WORKERS}}})
    with suppress(Conflict):  # else the controllers make it in a moment
        account = {"metadata": {"name": "default"}}
        await api.post("/api/v1/namespaces/team/serviceaccounts", account)
    high = {"metadata": {"name": "high"}, "value": 1000}
    await api.post("/apis/scheduling.k8s.io/v1/priorityclasses", high)


def training(name: str, folder: Path, by: str) -> dict[str, Any]:
    """The Job of job.yaml; here its command runs as a process, and its volume is a folder."""
    job = yaml.safe_load((HERE / "job.yaml").read_text())
    job["metadata"]["name"] = name
    template = job["spec"]["template"]
    template["metadata"]["annotations"] = {
        "fake.windlass.dev/runs": "process",
        protocol.MODE: by,
        protocol.BUDGET: f"{BUDGET_S}s",
    }
    template["spec"]["terminationGracePeriodSeconds"] = GRACE_S
    del template["spec"]["volumes"]
    (container,) = template["spec"]["containers"]
    del container["volumeMounts"]
    container["command"] = [sys.executable, str(HERE / "train.py")]
    told = {"CHECKPOINTS": str(folder), "PAUSE_S": PAUSE_S, **ENVIRONMENT}
    if by == protocol.RequestMode.HTTP:
        told["WINDLASS_CHECKPOINT_PORT"] = str(protocol.DEFAULT_PORT)
    container["env"] = [{"name": key, "value": value} for key, value in told.items()]
    return job


def urgent(name: str) -> dict[str, Any]:
    """A gang that needs the same GPUs, for a second, and comes first."""
    container = {"name": "main", "image": "none", "resources": {"limits": {GPU: "1"}}}
    template = {
        "metadata": {
            "labels": {"windlass.dev/queue": "team"},
            "annotations": {"fake.windlass.dev/runs-for": "1s"},
        },
        "spec": {
            "schedulerName": "windlass",
            "priorityClassName": "high",
            "restartPolicy": "Never",
            "containers": [container],
        },
    }
    spec = {"completionMode": "Indexed", "completions": WORKERS, "parallelism": WORKERS}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}}
    return body | {"spec": spec | {"template": template}}


async def wait_until(holds: Callable[[], Awaitable[bool]], what: str) -> None:
    """Wait for something, but not for ever."""
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await holds():
                await asyncio.sleep(0.05)
    except TimeoutError:
        sys.exit(f"Waited {PATIENCE_S:.0f} s in vain for {what}.")


def check(holds: bool, otherwise: str) -> None:
    """Stop with a sentence if something is not as it should be."""
    if not holds:
        sys.exit(f"This should not be: {otherwise}.")


def say(line: str) -> None:
    """Show progress at once."""
    print(line, flush=True)


if __name__ == "__main__":
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--runs", type=int, default=1, help="disturb it so many times")
    words.add_argument("--seed", type=int, default=8, help="of the steps at which it is disturbed")
    all_ways = [
        protocol.RequestMode.SIGNAL.value,
        protocol.RequestMode.FILE.value,
        protocol.RequestMode.HTTP.value,
    ]
    words.add_argument("--by", choices=all_ways, nargs="+", default=["file"], help="how it is told")
    chosen = words.parse_args()
    asyncio.run(main(chosen.runs, chosen.seed, chosen.by))
