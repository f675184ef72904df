"""`windlass run`: stand by, lead while the lease is held, and stop in order.

SIGTERM, SIGINT: no more decisions; pending writes are finished; the lease is released.
SIGUSR1: the next step writes a snapshot.
A decision that does not end: the lease is released, so that another replica leads. A thread cannot
be ended from outside, so if it still runs after that, the process exits and Kubernetes restarts it.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
from typing import Any

from windlass.config import Config
from windlass.daemon.loop.leader_term import LeaderTerm
from windlass.daemon.serving import (
    DASHBOARD,
    SETTINGS,
    DaemonContext,
    DashboardServer,
    StructuredLog,
    application,
    check,
    listen,
    published,
    server,
)
from windlass.kube.client import Access, ApiError, Election, LeaseTerms, NotAllowed, connect, load
from windlass.metrics import Metrics
from windlass.web.documents import RoomExplainer

LOOK_EVERY_S = 0.25
"""The interval of the checks for a stuck decision."""
STUCK = 1
"""The exit status of a process whose decision does not end."""
SWITCH_S = 0.001
"""The switch interval of the interpreter. The thread of the engine computes without pause; the
event loop must get its turn often, to read the watches and renew the lease."""


async def run(config: Config, tell_room: RoomExplainer | None = None) -> None:
    """Run until a signal stops it; `tell_room` formats preemption previews for the dashboard."""
    check(config)
    sys.setswitchinterval(SWITCH_S)
    daemon = _Daemon(config, tell_room)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, daemon.stop)
    loop.add_signal_handler(signal.SIGUSR1, daemon.ask_for_snapshot)
    await daemon.run()


class _Daemon:
    """The process: election, ports and one term after the other."""

    def __init__(self, config: Config, tell_room: RoomExplainer | None) -> None:
        self._config = config
        self._log = StructuredLog(config.log.format, config.log.level)
        self._dashboard = (
            DashboardServer(config, self._log, self._nothing_to_show, tell_room)
            if config.dashboard.enabled
            else None
        )
        self._metrics = Metrics()
        self._term: LeaderTerm | None = None
        self._election: Election | None = None
        self._term_number = 0
        self._stop = asyncio.Event()

    def stop(self) -> None:
        """Stop in order."""
        self._log.line("stopping")
        self._stop.set()
        if self._term is not None:
            self._term.stop()

    def ask_for_snapshot(self) -> None:
        """Write the state as a file, if this process leads."""
        if self._term is not None:
            self._term.ask_for_snapshot()

    async def run(self) -> None:
        config, lease = self._config, self._config.lease
        terms = LeaseTerms(
            lease.name, lease.namespace, lease.duration_s, lease.renew_deadline_s, lease.retry_s
        )
        access = load(config.kubeconfig or None, config.context or None)
        async with (
            connect(access, timeout_s=terms.request_s) as unguarded,
            connect(access, timeout_s=terms.request_s, guard=self._guard) as api,
        ):
            identity = (
                f"{config.replica or socket.gethostname()}_{os.getpid()}_{os.urandom(3).hex()}"
            )
            own = self._dashboard.open(access.server) if self._dashboard else ""
            annotations: dict[str, str] = {SETTINGS: published(config), DASHBOARD: own}
            self._election = Election(
                unguarded, identity, terms, self._on_error, annotations=annotations
            )
            feed = self._dashboard.feed if self._dashboard else None
            context = DaemonContext(config, api, self._election, self._metrics, self._log, feed)
            shadow = self._shadow_report if config.shadow else None
            app = application(self._trouble, self._metrics, shadow)
            web = server(app, config.listens_on, config.port)
            listener = listen(config.listens_on, config.port)
            async with asyncio.TaskGroup() as group:
                serving = group.create_task(web.serve([listener]))
                standing = group.create_task(self._take_part_in_election(self._election))
                looking = group.create_task(self._serve_dashboard(access))
                self._log.line("started", identity=identity, server=access.server)
                await self._lead(context)
                standing.cancel()
                # No renewal may be in flight while the lease is released: it would take it back.
                await asyncio.wait([standing])
                await self._release()
                web.should_exit = True
                if self._dashboard is not None:
                    self._dashboard.close()
                await asyncio.wait([serving, looking])

    async def _serve_dashboard(self, access: Access) -> None:
        if self._dashboard is not None:
            await self._dashboard.run(access, self._leaders_dashboard)

    async def _take_part_in_election(self, election: Election) -> None:
        """Acquire and renew the lease, except while a decision of ours is stuck.

        Shadow mode takes no part in the election, but a stuck decision is detected as well.
        """
        while True:
            # The group waits for the cancelled election: no renewal is in flight at the release.
            async with asyncio.TaskGroup() as group:
                running = [] if self._config.shadow else [group.create_task(election.run())]
                term = await self._wait_stuck()
                for task in running:
                    task.cancel()
            self._log.line("stuck", level="error", why=term.trouble())
            self._metrics.leads.set(0)
            await self._release()
            await self._end_if_stuck(term)

    async def _wait_stuck(self) -> LeaderTerm:
        """Wait until a decision is stuck, and return its term."""
        while (term := self._term) is None or not term.is_stuck():
            await asyncio.sleep(LOOK_EVERY_S)
        return term

    async def _end_if_stuck(self, term: LeaderTerm) -> None:
        """Exit the process if the decision is still stuck after `renew_deadline_s` more seconds.

        `os._exit` is needed: a normal exit would wait for the thread of the decision.
        """
        try:
            async with asyncio.timeout(self._config.lease.renew_deadline_s):
                while self._term is term and term.is_stuck():
                    await asyncio.sleep(LOOK_EVERY_S)
        except TimeoutError:
            self._log.line("ends", level="error", why=term.trouble())
            os._exit(STUCK)

    async def _lead(self, context: DaemonContext) -> None:
        """Run one term after the other, each as long as the lease is held, until stopped."""
        while not self._stop.is_set():
            if not self._config.shadow:
                await self._wait_to_lead(context.election)
            if self._stop.is_set():
                return
            self._log.line("leads", shadow=self._config.shadow)
            self._metrics.leads.set(1)
            self._term_number = context.election.term_number
            self._term = LeaderTerm(context)
            await self._term.run()
            self._term = None
            self._metrics.leads.set(0)
            self._log.line("leads no more")
            await self._stand_back(context.election)

    async def _wait_to_lead(self, election: Election) -> None:
        """Wait until this process leads, or is stopped."""
        waits = [asyncio.ensure_future(event.wait()) for event in (election.lead, self._stop)]
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        for wait in waits:
            wait.cancel()

    async def _stand_back(self, election: Election) -> None:
        """Wait one request time-out before the next term.

        A write that was sent last may still take effect until then, and the next term must read it.
        """
        election.step_down()
        try:
            async with asyncio.timeout(election.terms.request_s):
                await self._stop.wait()
        except TimeoutError:
            pass

    async def _release(self) -> None:
        if self._election is not None and not self._config.shadow:
            try:
                await self._election.release()
            except ApiError as error:
                self._on_error(error)

    def _guard(self) -> None:
        if self._config.shadow or self._election is None:
            raise NotAllowed("shadow mode: nothing is written")
        self._election.guard(self._term_number)

    def _shadow_report(self) -> dict[str, Any]:
        return self._term.shadow_report() if self._term is not None else {}

    def _leaders_dashboard(self) -> str:
        """Return the address of the leader's dashboard; empty unless another replica leads."""
        election = self._election
        if self._term is not None or election is None or election.is_leader or not election.leader:
            return ""
        return election.lease_annotations.get(DASHBOARD, "")

    def _nothing_to_show(self) -> str:
        """Return why this replica shows nothing and which one leads; empty if it shows."""
        if self._term is not None:
            return "" if self._term.in_step else "The scheduler is still reading the cluster."
        leader = self._election.leader if self._election is not None else ""
        if not leader:
            return "Nobody leads at this moment, so there is nothing to show; it takes seconds."
        return f"{replica_of(leader)} leads, and this replica stands by: look there."

    def _trouble(self) -> str:
        if self._term is not None:
            return self._term.trouble()
        if self._election is not None and self._election.leader:
            return ""  # another replica leads, and this one is ready to take over
        return "nobody leads yet"

    def _on_error(self, error: ApiError) -> None:
        self._log.line("lease", level="warning", why=error.message)


def replica_of(identity: str) -> str:
    """Return the replica name in the identity of a leader, without process id and random part."""
    return identity.rsplit("_", 2)[0]
