"""Storms of preemption on a real API server: scheduler, work and nodes crash while gangs save.

Low work borrows what urgent gangs claim, again and again. Some of it saves when asked, some
refuses, is silent, or answers with a forged id. In the end everybody has what they should, no
device was ever given twice, and nothing is asked or half there any more.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from tests.live.support.bound_pods import wait_until
from tests.live.support.scene import Scene, is_running, name_of, scene, uid_of
from windlass.checkpoint.protocol import ACK, BUDGET, MODE, REQUEST, Ack, SaveState, read_request
from windlass.kube.client.errors import NotFound
from windlass_lab.control_plane.plane import Plane

STORMS = 100 if os.environ.get("WINDLASS_PROOF") == "1" else 5
AT_ONCE = 3
GUSTS = 6
GUARANTEED = 16
MANNERS = {"saves": "5m", "refuses": "5m", "is-silent": "2s", "forges": "3s"}
"""How low work answers, and the longest that it may take."""


@dataclass(slots=True)
class Storm:
    """One storm: what was submitted, and what the pods were asked."""

    made: Scene
    chance: Random
    urgent: dict[str, tuple[int, int]] = field(default_factory=dict[str, tuple[int, int]])
    """By name, its pods and the GPUs of each."""
    asked: dict[str, set[str]] = field(default_factory=dict[str, set[str]])
    """By uid, the ids of the requests."""
    crashes: int = 0

    async def begin(self) -> None:
        for manner, budget in MANNERS.items():
            notes = {MODE: "file", BUDGET: budget}
            await self.made.job(manner, 2, 3, "low", **notes)
        await self.made.leading()

    async def gust(self, number: int) -> None:
        """Something happens."""
        what = self.chance.choice(("comes", "comes", "goes", "crash", "loss", "node"))
        match what:
            case "comes":
                await self._come(f"urgent{number}")
            case "goes" if self.urgent:
                await self._go(self.chance.choice(sorted(self.urgent)))
            case "crash":
                await self.crash()
            case "loss" | "node":
                await self._lose(what == "node")
            case _:
                pass
        await asyncio.sleep(self.chance.random())

    async def crash(self) -> None:
        """The scheduler is killed wherever it is; another one takes over."""
        self.made.daemons[-1].signal(signal.SIGKILL)
        await self.made.daemons[-1].ended()
        await self.made.let_pass()
        await self.made.start()
        self.crashes += 1

    async def answer(self) -> None:
        """The pods answer, each in its manner."""
        for pod in await self.made.pods():
            notes = pod["metadata"].get("annotations", {})
            request = read_request(notes.get(REQUEST, ""))
            if request is None or not is_running(pod):
                continue
            self.asked.setdefault(uid_of(pod), set()).add(request.id)
            manner = name_of(pod).rsplit("-", 2)[0]
            known = ACK in notes and f'"{request.id}"' in notes[ACK]
            if manner == "is-silent" or known or (manner == "forges" and ACK in notes):
                continue
            state = SaveState.REFUSED if manner == "refuses" else SaveState.DONE
            name = "0123456789abcdef0123" if manner == "forges" else request.id
            ack = Ack(name, state, 7, at=1_000_000_000).text()
            with suppress(NotFound):
                body = {"metadata": {"annotations": {ACK: ack}}}
                await self.made.api.patch(self.made.path(name_of(pod)), body)

    async def _come(self, name: str) -> None:
        taken = sum(count * gpus for count, gpus in self.urgent.values())
        count, gpus = self.chance.choice(((1, 8), (2, 4), (2, 8), (3, 4)))
        if taken + count * gpus <= GUARANTEED:
            self.urgent[name] = (count, gpus)
            await self.made.gang(name, count, gpus, "high", preemptible="false")

    async def _go(self, name: str) -> None:
        for number in range(self.urgent.pop(name)[0]):
            with suppress(NotFound):
                await self.made.api.delete(
                    self.made.path(f"{name}-{number}"), {"gracePeriodSeconds": 0}
                )

    async def _lose(self, whole_node: bool) -> None:
        """One low pod dies, or all that share its node."""
        low = [each for each in await self.made.pods() if is_running(each) and is_low(each)]
        if not low:
            return
        chosen = self.chance.choice(low)
        there = [each for each in low if node_of(each) == node_of(chosen)]
        for pod in there if whole_node else [chosen]:
            with suppress(NotFound):
                await self.made.api.delete(self.made.path(name_of(pod)), {"gracePeriodSeconds": 0})

    async def is_calm(self) -> bool:
        """Do all urgent gangs run, is everybody whole or waiting, and is nobody asked?"""
        pods = [each for each in await self.made.pods() if each["status"]["phase"] != "Failed"]
        running = Counter(owner_of(each) for each in pods if is_running(each))
        if any(running[name] != count for name, (count, _) in self.urgent.items()):
            return False
        if any(running[manner] not in (0, 2) for manner in MANNERS):
            return False
        leaving = any("deletionTimestamp" in each["metadata"] for each in pods)
        asked = any(each["metadata"].get("annotations", {}).get(REQUEST) for each in pods)
        return not leaving and not asked


def is_low(pod: dict[str, Any]) -> bool:
    return owner_of(pod) in MANNERS


def owner_of(pod: dict[str, Any]) -> str:
    """The gang of a pod: `urgent3-0` is of urgent3, `saves-0-x7k2p` of saves."""
    name = name_of(pod)
    return name.rsplit("-", 1)[0] if name.startswith("urgent") else name.rsplit("-", 2)[0]


def node_of(pod: dict[str, Any]) -> str:
    return pod["spec"].get("nodeName", "")


async def test_storms_of_preemption_come_to_rest_and_break_nothing(
    plane: Plane, tmp_path: Path
) -> None:
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(seed: int) -> str:
        async with slots:
            try:
                await storm(plane, tmp_path, seed)
            except AssertionError as error:
                return f"--- storm {seed}: {error}"
            return ""

    wrong = [each for each in await asyncio.gather(*map(one, range(STORMS))) if each]
    assert not wrong, "\n".join(wrong)


async def storm(plane: Plane, folder: Path, seed: int) -> None:
    async with scene(plane.api_access(), folder, low=0, high=GUARANTEED) as made:
        it = Storm(made, Random(seed))
        await it.begin()
        answering = asyncio.create_task(answer_all_the_time(it))
        try:
            for number in range(GUSTS):
                await it.gust(number)
            if not it.crashes:
                await it.crash()
            await wait_until(it.is_calm, "everybody has what they should")
            before = {uid_of(each) for each in await made.pods() if is_running(each)}
            await asyncio.sleep(3)
            after = {uid_of(each) for each in await made.pods() if is_running(each)}
            assert before <= after, "somebody was evicted though nothing happened"
        finally:
            answering.cancel()
            [ended] = await asyncio.gather(answering, return_exceptions=True)
        assert isinstance(ended, asyncio.CancelledError), repr(ended)
        made.check()
        check_outcomes(made)


async def answer_all_the_time(it: Storm) -> None:
    while True:
        await it.answer()
        await asyncio.sleep(0.05)


def check_outcomes(made: Scene) -> None:
    """A forged answer is never believed, and nobody who saves is evicted before it has."""
    for daemon in made.daemons:
        for line in daemon.lines("save ended"):
            manner = line["gang"].rsplit("/", 1)[-1]
            if "forges" in manner or "silent" in manner:
                assert line["outcome"] != "saved", line
            elif "saves" in manner:
                assert line["outcome"] != "late", line
