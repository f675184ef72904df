"""The kubelets of a whole fleet in one object: watches in, writes out, faults on demand.

    pod watch ──▶ Host.saw/missed ──▶ Wake (a timer), Write (the writer), Launch, Kill (processes)
    timer ──────▶ Host.woke ────────▶ the same
    process ────▶ Host.exited ──────▶ the same

A node that is *lost* neither sees nor tells anything, but its containers and its own timers go on.
A node that is *paused* (its kubelet stands still) does not act either, until it is resumed.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial

from windlass.kube.client import (
    Access,
    Api,
    ApiError,
    Change,
    NotFound,
    ObjectGone,
    ObjectSeen,
    Watch,
    connect,
)
from windlass_lab.fake_kubelet.clock import now
from windlass_lab.fake_kubelet.device_allocations import DeviceAllocations
from windlass_lab.fake_kubelet.heartbeats import Heartbeats
from windlass_lab.fake_kubelet.node_agent import Host
from windlass_lab.fake_kubelet.pod_annotations import Habits
from windlass_lab.fake_kubelet.pod_lifecycle import Effect, Exit, Kill, Launch, Wake, Write
from windlass_lab.fake_kubelet.processes import Processes
from windlass_lab.fake_kubelet.status_writer import StatusWriter
from windlass_lab.fake_kubelet.wire import Node, Pod
from windlass_lab.fake_nodes.labels import GPU
from windlass_lab.fake_nodes.machines import Machine
from windlass_lab.fake_nodes.nodes import NODES
from windlass_lab.fake_nodes.register_nodes import register, report

log = logging.getLogger(__name__)

_SETTLE_S = 15.0
"""The time in seconds to wait for requests under way, longer than a request may take."""

_LOOKS_AGAIN_S = 0.1

_BOUND = {"fieldSelector": "spec.nodeName!="}


async def play(access: Access, fleet: Sequence[Machine], habits: Habits | None = None) -> None:
    """Play the nodes of the fleet for ever."""
    async with connect(access) as api:
        await Kubelet(api, fleet, habits).run()


@asynccontextmanager
async def playing(
    access: Access,
    fleet: Sequence[Machine],
    habits: Habits | None = None,
    book: DeviceAllocations | None = None,
) -> AsyncGenerator[Kubelet]:
    """Play the nodes of the fleet while the context is open; it opens when they are ready and all
    pods are known."""
    async with connect(access) as api:
        kubelet = Kubelet(api, fleet, habits, book)
        running = asyncio.create_task(kubelet.run())
        ready = asyncio.create_task(kubelet.ready.wait())
        try:
            await asyncio.wait((running, ready), return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                running.result()
            yield kubelet
        finally:
            await kubelet.settle()
            for task in (running, ready):
                task.cancel()
            with suppress(asyncio.CancelledError):
                await running


class Kubelet:
    """All nodes of a fleet, their device allocations, and the faults that a test may cause."""

    def __init__(
        self,
        api: Api,
        fleet: Sequence[Machine],
        habits: Habits | None = None,
        book: DeviceAllocations | None = None,
    ) -> None:
        self.habits = habits or Habits()
        self.book = book or DeviceAllocations()
        self.hosts = {
            machine.name: Host(machine, self.book, self.habits, number)
            for number, machine in enumerate(fleet)
        }
        self.ready = asyncio.Event()
        self.writer = StatusWriter(api, self.habits.in_flight, self._is_away)
        self.heartbeats = Heartbeats(api, self.habits, self._is_away)
        self.processes = Processes(self.habits.processes)
        self._api = api
        self._is_closing = False
        self._is_reporting = False
        self._lost: set[str] = set()
        self._paused: set[str] = set()
        self._overslept: dict[str, set[str]] = {}
        self._timers: set[asyncio.TimerHandle] = set()
        self._to_report: asyncio.Queue[str] = asyncio.Queue()
        self._pods = Watch(api, "/api/v1/pods", Pod, params=_BOUND)
        self._nodes = Watch(api, NODES, Node)

    async def run(self) -> None:
        """Register the nodes, then play them for ever."""
        await self._register(self.hosts.values())
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._nodes.run(self._nodes_changed))
                group.create_task(self._pods.run(self._pods_changed))
                group.create_task(self.writer.run())
                group.create_task(self.heartbeats.run())
                group.create_task(self._report())
                group.create_task(self._get_in_step())
        finally:
            for timer in self._timers:
                timer.cancel()
            self.processes.close()

    async def settle(self) -> None:
        """Start no more requests and wait for those under way.

        A connection that is cancelled while it is being made may be left open for good.
        """
        self._is_closing = True
        with suppress(TimeoutError):
            async with asyncio.timeout(_SETTLE_S):
                while self.writer.is_busy or self.heartbeats.is_busy or self._is_reporting:
                    await asyncio.sleep(0.01)

    # --- faults -----------------------------------------------------------------------------------

    def lose(self, node: str) -> None:
        """Cut the node off: no lease, no status, nothing seen; its containers run on."""
        self._host(node)
        self._lost.add(node)

    def bring_back(self, node: str) -> None:
        """Reconnect a lost node: it catches up and reports."""
        self._lost.discard(node)
        self._catch_up(node)

    def pause(self, node: str) -> None:
        """Stop the node's kubelet; containers go on, but none is started, killed or reported."""
        self._host(node)
        self._paused.add(node)

    def resume(self, node: str) -> None:
        """Continue a paused kubelet."""
        self._paused.discard(node)
        self._catch_up(node)

    async def restart(self, node: str) -> None:
        """Stop the node's kubelet and start it again; it registers its node again if needed."""
        host = self._host(node)
        self.pause(node)
        host.restart()
        if node not in self._lost:
            await self._register([host])
        self.resume(node)

    async def add(self, machine: Machine) -> None:
        """Add another machine."""
        if machine.name in self.hosts:
            raise ValueError(f"node {machine.name} is in this fleet already; delete it first")
        host = Host(machine, self.book, self.habits, len(self.hosts))
        self.hosts[machine.name] = host  # before its Node exists, so as not to miss that
        await self._register([host])
        self._catch_up(machine.name)

    async def delete_node(self, node: str) -> None:
        """Remove the machine with everything on it, and its Node, as an autoscaler would."""
        for uid in self._host(node).sitters:
            self.processes.kill(uid, at_once=True)
        del self.hosts[node]
        self._lost.discard(node)
        self._paused.discard(node)
        self.heartbeats.node_uids.pop(node, None)
        self.book.remove(node)
        self.writer.forget(node)
        with suppress(NotFound):
            await self._api.delete(f"{NODES}/{node}")

    def fail_gpu(self, node: str, index: int, *, tell: bool = True) -> None:
        """Make a GPU unhealthy; allocatable still counts it unless `report` is set."""
        self.book.fail(node, self.book.devices(node)[index])
        if tell:
            self._tell_gpus(node)

    def heal_gpu(self, node: str, index: int) -> None:
        """Make the GPU healthy again."""
        self.book.heal(node, self.book.devices(node)[index])
        self._tell_gpus(node)

    def refuse_next(self, node: str, reason: str, count: int = 1) -> None:
        """Refuse the next pods that are bound to the node."""
        self._host(node).to_refuse.extend([reason] * count)

    def slow_down(self, node: str, seconds: float) -> None:
        """Delay the start of containers on the node by this many seconds."""
        self._host(node).start_delay_s = seconds

    def release(self, uid: str) -> None:
        """End the containers of a pod that ignore its deletion."""
        for host in self.hosts.values():
            if uid in host.sitters:
                self._carry_out(host, host.release(uid, now()))

    # --- what the API server shows ----------------------------------------------------------------

    def _pods_changed(self, changes: list[Change[Pod]]) -> None:
        if not self.ready.is_set():
            return  # all of it is read when both watches are in step
        moment = now()
        for change in changes:
            pod = change.object
            node = pod.spec.node_name
            host = self.hosts.get(node)
            if host is None or self._is_away(node):
                continue
            if isinstance(change, ObjectSeen):
                self.processes.show(pod)
                self._carry_out(host, host.saw(pod, moment))
            else:
                self._carry_out(host, host.missed(pod.metadata.uid, moment))

    def _nodes_changed(self, changes: list[Change[Node]]) -> None:
        for change in changes:
            node = change.object
            name = node.metadata.name
            if name not in self.hosts:
                continue
            if isinstance(change, ObjectGone):
                self.heartbeats.node_uids.pop(name, None)
                continue
            self.heartbeats.node_uids[name] = node.metadata.uid
            self.hosts[name].learn(node)
            if not _is_ready(node) and not self._is_away(name):
                self._to_report.put_nowait(name)

    async def _get_in_step(self) -> None:
        await self._nodes.synced.wait()
        await self._pods.synced.wait()
        found = self._pods_by_node()
        for name, host in self.hosts.items():
            self._carry_out(host, host.reconcile(found.get(name, ()), now()))
        self.ready.set()

    def _pods_by_node(self) -> dict[str, list[Pod]]:
        found: dict[str, list[Pod]] = {}
        for pod in self._pods.items.values():
            found.setdefault(pod.spec.node_name, []).append(pod)
        return found

    # --- what the nodes want ----------------------------------------------------------------------

    def _carry_out(self, host: Host, effects: Iterable[Effect]) -> None:
        for effect in effects:
            match effect:
                case Write():
                    self.writer.order(effect)
                case Wake(uid, at):
                    self._call_at(at, lambda uid=uid: self._wake(host, uid))
                case Launch(pod, ip):
                    uid = pod.metadata.uid
                    self.processes.launch(pod, ip, partial(self._exited, host, uid))
                case Kill(uid, at_once):
                    self.processes.kill(uid, at_once=at_once)

    def _call_at(self, at: float, what: Callable[[], None]) -> None:
        def ring() -> None:
            self._timers.discard(timer)
            what()

        loop = asyncio.get_running_loop()
        timer = loop.call_later(max(0.0, at - now().at), ring)
        self._timers.add(timer)

    def _wake(self, host: Host, uid: str) -> None:
        node = host.machine.name
        if self.hosts.get(node) is not host:
            return
        if node in self._paused:
            self._overslept.setdefault(node, set()).add(uid)
        else:
            self._carry_out(host, host.woke(uid, now()))

    def _exited(self, host: Host, uid: str, exit: Exit) -> None:
        node = host.machine.name
        if self.hosts.get(node) is not host:
            return
        if node in self._paused:  # nobody looks until it goes on
            self._call_at(now().at + _LOOKS_AGAIN_S, lambda: self._exited(host, uid, exit))
        else:
            self._carry_out(host, host.exited(uid, exit, now()))

    def _catch_up(self, node: str) -> None:
        """Process what was missed while the node was away."""
        host = self._host(node)
        if self._is_away(node) or not self.ready.is_set():
            return
        for uid in self._overslept.pop(node, ()):
            self._carry_out(host, host.woke(uid, now()))
        pods = self._pods_by_node().get(node, ())
        for pod in pods:
            self.processes.show(pod)
        self._carry_out(host, host.reconcile(pods, now()))
        self.writer.unpark(node)
        self._to_report.put_nowait(node)

    def _tell_gpus(self, node: str) -> None:
        self._host(node).report_gpus()
        self._to_report.put_nowait(node)

    async def _report(self) -> None:
        """Write node statuses, one after the other: they are rare."""
        while True:
            node = await self._to_report.get()
            host = self.hosts.get(node)
            if host is None or self._is_away(node):
                continue
            self._is_reporting = True
            try:
                await report(self._api, host.machine, host.room.allocatable.get(GPU, 0))
            except NotFound:
                pass  # the Node was deleted; a real kubelet too registers again only when restarted
            except ApiError as error:
                log.warning("The status of node %s was not written: %s", node, error)
                self._call_at(now().at + 1.0, lambda node=node: self._to_report.put_nowait(node))
            finally:
                self._is_reporting = False

    async def _register(self, hosts: Iterable[Host]) -> None:
        machines = [(host.machine, host.report_gpus()) for host in hosts]
        await register(self._api, machines, self.habits)

    def _is_away(self, node: str) -> bool:
        return self._is_closing or node in self._lost or node in self._paused

    def _host(self, node: str) -> Host:
        if node not in self.hosts:
            raise KeyError(
                f"no node {node} in this fleet of {len(self.hosts)}: {[*self.hosts][:5]}"
            )
        return self.hosts[node]


def _is_ready(node: Node) -> bool:
    return any(one.type == "Ready" and one.status == "True" for one in node.status.conditions)
