"""The kubelet of one node without I/O: observed objects in, writes and wake-up times out.

Pure but for the device allocations, which it shares with the other nodes. `pod_lifecycle.py` draws
the states of a pod.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from windlass_lab.fake_kubelet import status
from windlass_lab.fake_kubelet.admit import (
    UNEXPECTED,
    AdmissionDenied,
    Room,
    blame,
    judge,
    no_devices,
)
from windlass_lab.fake_kubelet.allocation_audit import Cause
from windlass_lab.fake_kubelet.device_allocations import DeviceAllocations, Unavailable
from windlass_lab.fake_kubelet.pod_annotations import NEVER, Habits, Script, UnreadableScript, read
from windlass_lab.fake_kubelet.pod_lifecycle import (
    ClockReading,
    ContainerStage,
    Effect,
    Exit,
    Kill,
    Launch,
    Sitter,
    Wake,
    Write,
)
from windlass_lab.fake_kubelet.requests import Amounts, requested
from windlass_lab.fake_kubelet.status import Ending
from windlass_lab.fake_kubelet.wire import Node, Pod
from windlass_lab.fake_nodes.labels import GPU, node_labels
from windlass_lab.fake_nodes.machines import Machine

_TERMINAL = ("Succeeded", "Failed")
_KILLED = Exit(status.KILLED)
_EARLY_S = 0.002
"""The time in seconds by which timers of an event loop may fire early."""


class Host:
    """One machine: the pods on it, the free capacity, and the faults that a test requested."""

    def __init__(
        self, machine: Machine, book: DeviceAllocations, habits: Habits, number: int = 0
    ) -> None:
        self.machine = machine
        self.room = Room(machine.name, _allocatable(machine), machine.gpus, node_labels(machine))
        self.sitters: dict[str, Sitter] = {}
        self.to_refuse: deque[str] = deque()
        """The reasons for which the next pods are refused."""
        self.start_delay_s = 0.0
        """The seconds added to every start."""
        self._book = book
        self._habits = habits
        self._addresses = Addresses(number)
        self._out: list[Effect] = []
        if machine.name not in book:
            book.add(machine.name, machine.devices())

    def saw(self, pod: Pod, now: ClockReading) -> list[Effect]:
        """Process a pod that the API server shows as bound to this node."""
        sitter = self.sitters.get(pod.metadata.uid)
        if sitter is None:
            self._meet(pod, now)
        else:
            sitter.pod = pod
            if pod.metadata.deletion_timestamp is not None:
                self._end_gracefully(sitter, now)
        return self._effects()

    def reconcile(self, pods: Iterable[Pod], now: ClockReading) -> list[Effect]:
        """Process all pods that the API server shows on this node, after a pause in watching."""
        found = sorted(pods, key=_running_first)
        for pod in found:
            self._out += self.saw(pod, now)
        present = {pod.metadata.uid for pod in found}
        for uid in [uid for uid in self.sitters if uid not in present]:
            self._out += self.missed(uid, now)
        for uid in self._book.held(self.machine.name):
            if uid not in self.sitters:  # left by an earlier kubelet whose containers are dead
                self._book.give_back(self.machine.name, uid)
        return self._effects()

    def missed(self, uid: str, now: ClockReading) -> list[Effect]:
        """Process that the API server shows the pod no more; its containers may still run."""
        sitter = self.sitters.get(uid)
        if sitter is not None and sitter.stage is ContainerStage.ENDED:
            del self.sitters[uid]
        elif sitter is not None and sitter.stage is not ContainerStage.KILLED:
            sitter.stage = ContainerStage.KILLED
            self.room.linger(sitter.asked)
            self._wait(sitter, now, self._habits.kill_delay_s)
        return self._effects()

    def woke(self, uid: str, now: ClockReading) -> list[Effect]:
        """Process a timer that the host requested; it may be obsolete."""
        sitter = self.sitters.get(uid)
        if sitter is not None and sitter.due - _EARLY_S <= now.at:
            sitter.due = NEVER
            self._go_on(sitter, now)
        return self._effects()

    def exited(self, uid: str, exit: Exit, now: ClockReading) -> list[Effect]:
        """Process that the process of a pod has ended, by itself or on request."""
        sitter = self.sitters.get(uid)
        if sitter is not None and sitter.stage is ContainerStage.RUNNING:
            self._stop(sitter, now, exit)
        elif sitter is not None and sitter.stage in (ContainerStage.ENDING, ContainerStage.KILLED):
            self._end(sitter, now, exit)
        return self._effects()

    def release(self, uid: str, now: ClockReading) -> list[Effect]:
        """End containers that ignored a deletion."""
        sitter = self.sitters.get(uid)
        if sitter is not None and sitter.stage in (ContainerStage.ENDING, ContainerStage.KILLED):
            self._make_end(sitter, now, _KILLED)
        return self._effects()

    def restart(self) -> None:
        """Restart the kubelet: pods without a container must be admitted again.

        Containers go on, the runtime knows ended ones, and allocations are kept, so that a pod that
        is admitted again gets the devices that it had.
        """
        for uid, sitter in list(self.sitters.items()):
            if sitter.stage is ContainerStage.WAITING and not sitter.restarts:
                self.room.free(sitter.asked, lingered=False)
                del self.sitters[uid]

    def learn(self, node: Node) -> None:
        """Take over the labels and taints of the Node object, which others may have changed."""
        self.room.labels = node.metadata.labels
        self.room.taints = tuple(node.spec.taints)

    def report_gpus(self) -> int:
        """Count the healthy GPUs and make that number allocatable."""
        if self.machine.gpus:
            self.room.allocatable[GPU] = self._book.healthy(self.machine.name)
        return self.room.allocatable.get(GPU, 0)

    def _meet(self, pod: Pod, now: ClockReading) -> None:
        deleted = pod.metadata.deletion_timestamp is not None
        if pod.status.phase in _TERMINAL or (deleted and pod.status.phase != "Running"):
            self._book.give_back(self.machine.name, pod.metadata.uid)  # of an earlier kubelet
            if deleted:
                self._out.append(Write(pod, None, remove=True))
            return
        sitter = self._admitted(pod)
        if sitter is None:
            return
        if pod.status.phase == "Running":
            self._run(sitter, now, quietly=True)
        else:
            self._prepare(sitter, now)
        if deleted:
            self._end_gracefully(sitter, now)

    def _admitted(self, pod: Pod) -> Sitter | None:
        """Admit the pod and return it with its devices; None if it was refused."""
        uid = pod.metadata.uid
        asked = requested(pod.spec) | {"pods": 1}
        try:
            sitter = Sitter(pod, self._script(pod), asked)
            refused = self._ordered(sitter) or self._try(pod, asked)
        except UnreadableScript as error:
            sitter = Sitter(pod, Script(), asked)
            refused = AdmissionDenied("UnreadableScript", str(error), Cause.ORDERED)
        self.sitters[uid] = sitter
        if refused is None:
            self.room.take(asked)
            return sitter
        sitter.stage = ContainerStage.ENDED
        self._book.refuse(self.machine.name, uid, refused.reason, refused.cause)
        self._out.append(Write(pod, status.rejected(refused.reason, refused.message)))
        return None

    def _script(self, pod: Pod) -> Script:
        found = read(pod.metadata.annotations)
        if found.is_process and not self._habits.processes:
            raise UnreadableScript("this kubelet runs no processes; see Habits.processes")
        return found

    def _ordered(self, sitter: Sitter) -> AdmissionDenied | None:
        reason = sitter.script.refuse
        if not reason and self.to_refuse:
            reason = self.to_refuse.popleft()
        if not reason:
            return None
        what = "Allocate failed due to an order of the test, which is unexpected"
        message = what if reason == UNEXPECTED else "The test told this node to refuse the pod"
        return AdmissionDenied(reason, message, Cause.ORDERED)

    def _try(self, pod: Pod, asked: Amounts) -> AdmissionDenied | None:
        """Count and allocate, in the configured order; devices are returned if the count
        refuses."""
        if not self._habits.devices_first:
            return judge(self.room, pod, asked) or self._hand_out(pod, asked)
        refused = self._hand_out(pod, asked)
        if refused is None:
            refused = judge(self.room, pod, asked)
            if refused is not None:
                self._book.give_back(self.machine.name, pod.metadata.uid)
        return refused

    def _hand_out(self, pod: Pod, asked: Amounts) -> AdmissionDenied | None:
        count, name = asked.get(GPU, 0), self.machine.name
        if not count or not self.machine.gpus:
            return None
        try:
            self._book.hand_out(name, pod.metadata.uid, count)
        except Unavailable as short:
            cause = blame(self.room, GPU, count, short.free)
            return no_devices(count, short.free, self._book.healthy(name), cause)
        return None

    def _prepare(self, sitter: Sitter, now: ClockReading) -> None:
        script = sitter.script.starts_after_s
        delay = self._habits.starts_after_s if script is None else script
        delay += self.start_delay_s
        if delay <= 0:
            self._run(sitter, now)
        else:
            self._out.append(
                Write(sitter.pod, status.creating(sitter.pod, now.stamp, self._addresses.host))
            )
            self._wait(sitter, now, delay)

    def _run(self, sitter: Sitter, now: ClockReading, *, quietly: bool = False) -> None:
        sitter.stage, sitter.started = ContainerStage.RUNNING, now.stamp
        ip = self._addresses.next_pod(is_real=sitter.script.is_process)
        if sitter.script.is_process:
            self._out.append(Launch(sitter.pod, ip))
        if not quietly:
            ips = (self._addresses.host, ip)
            wanted = status.running(sitter.pod, sitter.started, ips, sitter.last)
            self._out.append(Write(sitter.pod, wanted))
        self._wait(sitter, now, sitter.script.runs_for_s)

    def _go_on(self, sitter: Sitter, now: ClockReading) -> None:
        match sitter.stage:
            case ContainerStage.WAITING:
                self._run(sitter, now)
            case ContainerStage.RUNNING:
                self._stop(sitter, now, Exit(sitter.script.exit_code))
            case ContainerStage.ENDING:
                self._make_end(sitter, now, Exit(status.TERMINATED))
            case ContainerStage.KILLED:
                self._make_end(sitter, now, _KILLED)
            case ContainerStage.ENDED:
                pass

    def _stop(self, sitter: Sitter, now: ClockReading, exit: Exit) -> None:
        """End the run of the containers; the pod's restart policy says what follows."""
        policy = sitter.pod.spec.restart_policy
        if policy == "Never" or (policy == "OnFailure" and exit.code == 0):
            self._end(sitter, now, exit)
            return
        sitter.restarts += 1
        sitter.last = _ending(sitter, now, exit)
        self._out.append(Write(sitter.pod, status.crashed(sitter.pod, sitter.last)))
        sitter.stage = ContainerStage.WAITING
        self._wait(sitter, now, self._habits.restart_delay_s)

    def _end_gracefully(self, sitter: Sitter, now: ClockReading) -> None:
        if sitter.stage is ContainerStage.ENDED:
            self._remove(sitter, None)
            return
        is_process = sitter.script.is_process
        if sitter.stage is ContainerStage.WAITING and (is_process or not sitter.restarts):
            self._end(sitter, now, _KILLED)
            return
        if is_process and sitter.stage is ContainerStage.RUNNING:
            self._out.append(Kill(sitter.pod.metadata.uid, at_once=False))
        delay = self._obeys_after(sitter)
        if sitter.stage is ContainerStage.ENDING:
            delay = min(delay, sitter.due - now.at)  # a second deletion can only hasten it
        sitter.stage = ContainerStage.ENDING
        if delay <= 0:
            self._make_end(sitter, now, Exit(status.TERMINATED))
        else:
            self._wait(sitter, now, delay)

    def _obeys_after(self, sitter: Sitter) -> float:
        """Return the seconds that the containers take to obey a deletion, bounded by the grace
        period."""
        grace = sitter.pod.metadata.deletion_grace_period_seconds or 0
        if sitter.script.is_process:
            return grace
        obeys = sitter.script.terminates_after_s
        obeys = self._habits.terminates_after_s if obeys is None else obeys
        return NEVER if obeys == NEVER else min(obeys, grace)

    def _make_end(self, sitter: Sitter, now: ClockReading, exit: Exit) -> None:
        """End the containers now; a process is killed and reports its end itself."""
        if sitter.script.is_process:
            self._out.append(Kill(sitter.pod.metadata.uid, at_once=True))
        else:
            self._end(sitter, now, exit)

    def _end(self, sitter: Sitter, now: ClockReading, exit: Exit) -> None:
        """Note that the containers have ended: devices and capacity are free from here on."""
        uid, lingered = sitter.pod.metadata.uid, sitter.stage is ContainerStage.KILLED
        self._book.give_back(self.machine.name, uid)
        self.room.free(sitter.asked, lingered=lingered)
        sitter.stage, sitter.due = ContainerStage.ENDED, NEVER
        if lingered:
            del self.sitters[uid]
            return
        final = status.ended(sitter.pod, _ending(sitter, now, exit))
        if sitter.pod.metadata.deletion_timestamp is None:
            self._out.append(Write(sitter.pod, final))
        else:
            self._remove(sitter, final)

    def _remove(self, sitter: Sitter, final: status.Status | None) -> None:
        """Order the removal of a deleted pod, once; without grace left it only waits for its
        finalizers."""
        remove = not sitter.leaving and sitter.pod.metadata.deletion_grace_period_seconds != 0
        if final is not None or remove:
            self._out.append(Write(sitter.pod, final, remove))
        sitter.leaving = sitter.leaving or remove

    def _wait(self, sitter: Sitter, now: ClockReading, delay_s: float) -> None:
        sitter.due = now.at + delay_s
        if sitter.due != NEVER:
            self._out.append(Wake(sitter.pod.metadata.uid, sitter.due))

    def _effects(self) -> list[Effect]:
        out, self._out = self._out, []
        return out


class Addresses:
    """The address of a host and those of its pods: controllers read them, and processes listen
    there."""

    def __init__(self, number: int) -> None:
        self._network = f"{number // 256 % 64}.{number % 256}"
        self._pods = 0
        self.host = f"10.{self._network}.1"

    def next_pod(self, *, is_real: bool = False) -> str:
        """Return an address of the host's network, reused after 250 others.

        An address for a process is on loopback; the others are never dialled.
        """
        self._pods = self._pods % 250 + 1
        return f"{127 if is_real else 10}.{self._network}.{self._pods + 2}"


def _ending(sitter: Sitter, now: ClockReading, exit: Exit) -> Ending:
    began = sitter.started or now.stamp
    return Ending(exit.code, began, now.stamp, sitter.restarts, exit.message)


def _running_first(pod: Pod) -> tuple[bool, str, str]:
    """Return the sort key of pods at a restart: running containers first, then by age."""
    meta = pod.metadata
    return pod.status.phase != "Running", meta.creation_timestamp, meta.uid


def _allocatable(machine: Machine) -> Amounts:
    amounts = {"cpu": machine.cpu_milli, "memory": machine.memory_bytes, "pods": machine.pods}
    return amounts | ({GPU: machine.gpus} if machine.gpus else {})
