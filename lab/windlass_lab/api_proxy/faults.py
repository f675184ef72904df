"""The faults that a proxy can inject: answer a call, cut it off, delay it, or kill its caller."""

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
    """The two moments of a call at which a fault can be injected."""

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
    """Let the call wait; with an event that never comes, it hangs."""

    async def hook(_call: Call) -> Verdict:
        await until.wait()
        return None

    return hook


def run(what: Callable[[], None]) -> Hook:
    """Run a function, such as deleting a node, and let the call go on."""

    async def hook(_call: Call) -> Verdict:
        what()
        return None

    return hook


def kill(pid: Callable[[], int]) -> Hook:
    """Kill a process as in a crash: its call may arrive, but it never sees the answer."""

    async def hook(_call: Call) -> Verdict:
        with suppress(ProcessLookupError):
            os.kill(pid(), signal.SIGKILL)
        return Cut()

    return hook
