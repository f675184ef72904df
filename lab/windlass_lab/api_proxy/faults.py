"""What a proxy can do to a call: answer it, cut it off, hold it up, or end who made it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from windlass_lab.api_proxy.calls import Call


class When(StrEnum):
    """The two moments of a call at which something can be done."""

    BEFORE = "before"
    AFTER = "after"


@dataclass(frozen=True, slots=True)
class ProxyAnswer:
    """An answer of the proxy's own."""

    status: int
    reason: str = "Injected"
    retry_after_s: int | None = None


class Cut:
    """The connection is closed without an answer."""


Verdict: TypeAlias = ProxyAnswer | Cut | None
Hook: TypeAlias = Callable[[Call], Awaitable[Verdict]]


def answer(status: int, reason: str = "Injected", retry_after_s: int | None = None) -> Hook:
    """Answer with a Status of this code instead of the server."""

    async def hook(_call: Call) -> Verdict:
        return ProxyAnswer(status, reason, retry_after_s)

    return hook


def lose() -> Hook:
    """Cut the connection: before, nothing is carried out; after, only the answer is lost."""

    async def hook(_call: Call) -> Verdict:
        return Cut()

    return hook


def hold(until: asyncio.Event) -> Hook:
    """Let the call wait; until an event that never comes, it hangs."""

    async def hook(_call: Call) -> Verdict:
        await until.wait()
        return None

    return hook


def run(what: Callable[[], None]) -> Hook:
    """Do something, such as deleting a node, and let the call go on."""

    async def hook(_call: Call) -> Verdict:
        what()
        return None

    return hook


def kill(pid: Callable[[], int]) -> Hook:
    """End a process as a crash does: its call comes through or not, but never its answer."""

    async def hook(_call: Call) -> Verdict:
        with suppress(ProcessLookupError):
            os.kill(pid(), signal.SIGKILL)
        return Cut()

    return hook
