"""One node of the fake kubelet without an API server: what it admits, runs, ends and holds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from windlass_lab.fake_kubelet.admit import suits
from windlass_lab.fake_kubelet.allocation_audit import Cause
from windlass_lab.fake_kubelet.device_allocations import DeviceAllocations
from windlass_lab.fake_kubelet.node_agent import Host
from windlass_lab.fake_kubelet.pod_annotations import Habits
from windlass_lab.fake_kubelet.pod_lifecycle import ClockReading, Effect, Exit, Kill, Launch, Wake
from windlass_lab.fake_kubelet.requests import milli, requested, whole
from windlass_lab.fake_kubelet.wire import Node, Pod, PodSpec
from windlass_lab.fake_nodes.labels import GPU
from windlass_lab.fake_nodes.machines import GIB, Machine

FAKE = "fake.windlass.dev/"


class Scene:
    """A host with four GPUs and a clock that is moved by hand."""

    def __init__(self, habits: Habits | None = None, **machine: Any) -> None:
        self.book = DeviceAllocations()
        described: dict[str, Any] = {
            "cpu_milli": 8000,
            "memory_bytes": 32 * GIB,
            "gpus": 4,
        } | machine
        self.host = Host(Machine("a", **described), self.book, habits or Habits())
        self.now = 0.0
        self.wakes: list[Wake] = []
        self.written: dict[str, dict[str, Any]] = {}
        self.removed: list[str] = []
        self.launched: list[str] = []
        self.killed: list[tuple[str, bool]] = []

    def show(self, pod: Pod) -> None:
        self._take(self.host.saw(pod, self._moment()))

    def hide(self, uid: str) -> None:
        self._take(self.host.missed(uid, self._moment()))

    def exit(self, uid: str, code: int, message: str = "") -> None:
        self._take(self.host.exited(uid, Exit(code, message), self._moment()))

    def release(self, uid: str) -> None:
        self._take(self.host.release(uid, self._moment()))

    def reconcile(self, *pods: Pod) -> None:
        self._take(self.host.reconcile(pods, self._moment()))

    def wait(self, seconds: float) -> None:
        until = self.now + seconds
        while due := sorted((w for w in self.wakes if w.at <= until), key=lambda w: w.at):
            self.wakes.remove(due[0])
            self.now = max(self.now, due[0].at)
            self._take(self.host.woke(due[0].uid, self._moment()))
        self.now = until

    def phase(self, uid: str) -> str:
        return self.written[uid]["phase"]

    def reason(self, uid: str) -> str:
        return self.written[uid]["reason"]

    def holds(self, uid: str) -> int:
        return len(self.book.held_by(uid))

    def _moment(self) -> ClockReading:
        return ClockReading(self.now, f"2026-01-01T00:00:{int(self.now) % 60:02}Z")

    def _take(self, effects: list[Effect]) -> None:
        for effect in effects:
            if isinstance(effect, Wake):
                self.wakes.append(effect)
            elif isinstance(effect, Launch):
                self.launched.append(effect.pod.metadata.uid)
            elif isinstance(effect, Kill):
                self.killed.append((effect.uid, effect.at_once))
            else:
                if effect.status is not None:
                    self.written[effect.pod.metadata.uid] = effect.status
                if effect.remove:
                    self.removed.append(effect.pod.metadata.uid)


def pod(uid: str, *, gpus: int = 1, phase: str = "Pending", **changes: Any) -> Pod:
    """A bound pod; `notes` are fake annotations, `grace` makes it a deleted one."""
    requests = {"cpu": "1", "memory": "1Gi", GPU: str(gpus)} | changes.pop("requests", {})
    grace = changes.pop("grace", None)
    meta: dict[str, Any] = {"name": uid, "namespace": "ns", "uid": uid}
    meta["annotations"] = {FAKE + key: value for key, value in changes.pop("notes", {}).items()}
    if grace is not None:
        meta |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
    container = {"name": "main", "resources": {"requests": requests}}
    spec = {"nodeName": "a", "containers": [container], "restartPolicy": "Never"} | changes
    return msgspec.convert({"metadata": meta, "spec": spec, "status": {"phase": phase}}, Pod)


def test_a_pod_without_annotations_runs_at_once_and_for_ever() -> None:
    scene = Scene()
    scene.show(pod("p"))
    scene.wait(1e9)
    assert (scene.phase("p"), scene.holds("p")) == ("Running", 1)


def test_a_pod_starts_and_ends_as_its_annotations_say() -> None:
    scene = Scene()
    scene.show(pod("p", notes={"starts-after": "2s", "runs-for": "1m", "exit-code": "3"}))
    seen = [(scene.phase("p"), scene.holds("p"))]
    for seconds in (2, 59.9, 0.2):
        scene.wait(seconds)
        seen.append((scene.phase("p"), scene.holds("p")))
    assert seen == [("Pending", 1), ("Running", 1), ("Running", 1), ("Failed", 0)]
    assert scene.written["p"]["containerStatuses"][0]["state"]["terminated"]["exitCode"] == 3


def test_a_pod_that_is_to_be_restarted_keeps_its_devices() -> None:
    scene = Scene(Habits(restart_delay_s=10))
    scene.show(pod("p", notes={"runs-for": "5s"}, restartPolicy="Always"))
    scene.wait(6)
    assert (scene.phase("p"), scene.holds("p")) == ("Running", 1)
    assert scene.written["p"]["containerStatuses"][0]["restartCount"] == 1
    scene.wait(10)
    assert scene.written["p"]["containerStatuses"][0]["ready"]


@pytest.mark.parametrize(
    ("asked", "reason", "message"),
    [
        ({"cpu": "9"}, "OutOfcpu", "cpu, requested: 9000, used: 0, capacity: 8000"),
        ({"memory": "33Gi"}, "OutOfmemory", f"memory, requested: {33 * GIB}, used: 0"),
        ({GPU: "5"}, "OutOfnvidia.com/gpu", f"{GPU}, requested: 5, used: 0, capacity: 4"),
    ],
)
def test_a_pod_that_asks_for_more_than_the_node_has_is_refused_in_the_words_of_a_kubelet(
    asked: dict[str, str], reason: str, message: str
) -> None:
    scene = Scene()
    scene.show(pod("p", requests=asked))
    assert (scene.phase("p"), scene.reason("p")) == ("Failed", reason)
    expected = "Pod was rejected: Node didn't have enough resource: " + message
    assert scene.written["p"]["message"].startswith(expected)


def test_no_pod_slot_left_is_the_first_reason() -> None:
    scene = Scene(pods=1)
    scene.show(pod("one"))
    scene.show(pod("two", gpus=9))
    assert scene.reason("two") == "OutOfpods"


def test_a_double_booking_is_refused_and_recorded() -> None:
    scene = Scene()
    scene.show(pod("one", gpus=3))
    scene.show(pod("two", gpus=2))
    assert scene.reason("two") == "OutOfnvidia.com/gpu"
    assert [refusal.holder for refusal in scene.book.overbooked()] == ["two"]


def test_with_devices_first_a_double_booking_is_an_unexpected_admission_error() -> None:
    scene = Scene(Habits(devices_first=True))
    scene.show(pod("one", gpus=3))
    scene.show(pod("two", gpus=2))
    assert scene.reason("two") == "UnexpectedAdmissionError"
    assert "Requested: 2, Available: 1, which is unexpected" in scene.written["two"]["message"]
    assert len(scene.book.overbooked()) == 1


def test_with_devices_first_the_devices_of_a_pod_that_lacks_cpu_go_back() -> None:
    scene = Scene(Habits(devices_first=True))
    scene.show(pod("p", requests={"cpu": "9"}))
    assert (scene.reason("p"), scene.holds("p")) == ("OutOfcpu", 0)


def test_what_a_refused_pod_asked_for_stays_free() -> None:
    scene = Scene()
    scene.show(pod("large", gpus=5))
    scene.show(pod("small", gpus=4))
    assert scene.phase("small") == "Running"


def test_a_refused_pod_is_not_admitted_when_it_is_shown_again() -> None:
    scene = Scene()
    scene.show(pod("one", gpus=4))
    scene.show(pod("two"))
    scene.show(pod("one", gpus=4, grace=0))
    scene.show(pod("two"))
    assert (scene.phase("two"), scene.holds("two")) == ("Failed", 0)


def test_an_untold_gpu_failure_is_an_unexpected_admission_error_not_a_double_booking() -> None:
    scene = Scene()
    scene.book.fail("a", "GPU-a-0")
    scene.show(pod("p", gpus=4))
    assert scene.reason("p") == "UnexpectedAdmissionError"
    assert [refusal.cause for refusal in scene.book.refusals] == [Cause.UNHEALTHY]


def test_a_told_gpu_failure_lowers_what_is_counted() -> None:
    scene = Scene()
    scene.book.fail("a", "GPU-a-0")
    assert scene.host.report_gpus() == 3
    scene.show(pod("p", gpus=4))
    assert scene.reason("p") == "OutOfnvidia.com/gpu"
    assert [refusal.cause for refusal in scene.book.refusals] == [Cause.UNHEALTHY]


def test_a_node_without_gpus_refuses_pods_that_want_one() -> None:
    scene = Scene(gpus=0)
    scene.show(pod("p"))
    assert scene.reason("p") == "OutOfnvidia.com/gpu"


def test_a_node_selector_that_does_not_match_is_refused() -> None:
    scene = Scene()
    scene.show(pod("p", nodeSelector={"zone": "b"}))
    assert (scene.reason("p"), scene.book.refusals[0].cause) == ("NodeAffinity", Cause.MISPLACED)


def test_of_the_taints_only_no_execute_is_refused() -> None:
    scene = Scene()
    taints = [{"key": "k", "effect": "NoSchedule"}, {"key": "k", "effect": "NoExecute"}]
    for uid, some in (("suits", taints[:1]), ("refused", taints)):
        node = {"metadata": {"name": "a"}, "spec": {"taints": some}}
        scene.host.learn(msgspec.convert(node, Node))
        scene.show(pod(uid))
    scene.show(pod("tolerant", tolerations=[{"key": "k", "operator": "Exists"}]))
    assert scene.reason("refused") == "TaintToleration"
    assert (scene.phase("suits"), scene.phase("tolerant")) == ("Running", "Running")


def test_a_deleted_pod_is_removed_when_its_containers_have_obeyed() -> None:
    scene = Scene()
    notes = {"terminates-after": "10s"}
    scene.show(pod("p", notes=notes))
    scene.show(pod("p", notes=notes, phase="Running", grace=30))
    scene.wait(9.9)
    assert (scene.removed, scene.holds("p")) == ([], 1)
    scene.wait(0.2)
    assert (scene.removed, scene.holds("p"), scene.phase("p")) == (["p"], 0, "Failed")


def test_containers_that_take_too_long_are_killed_when_the_grace_is_over() -> None:
    scene = Scene()
    notes = {"terminates-after": "1h"}
    scene.show(pod("p", notes=notes))
    scene.show(pod("p", notes=notes, phase="Running", grace=30))
    scene.wait(30)
    assert (scene.removed, scene.holds("p")) == (["p"], 0)


def test_a_second_deletion_can_only_hasten_the_end() -> None:
    scene = Scene()
    notes = {"terminates-after": "1h"}
    scene.show(pod("p", notes=notes))
    scene.show(pod("p", notes=notes, grace=30))
    scene.wait(5)
    scene.show(pod("p", notes=notes, grace=2))
    scene.wait(1)
    scene.show(pod("p", notes=notes, grace=2))
    scene.wait(1)
    assert scene.removed == ["p"]


def test_a_pod_is_removed_only_once_however_often_it_is_shown() -> None:
    scene = Scene()
    scene.show(pod("p"))
    for phase in ("Running", "Failed", "Failed"):
        scene.show(pod("p", phase=phase, grace=30))
    assert scene.removed == ["p"]


def test_a_pod_that_never_ends_keeps_its_devices_until_it_is_released() -> None:
    scene = Scene()
    notes = {"terminates-after": "never"}
    scene.show(pod("p", notes=notes))
    scene.show(pod("p", notes=notes, phase="Running", grace=30))
    scene.wait(1e6)
    assert (scene.removed, scene.holds("p")) == ([], 1)
    scene.release("p")
    assert (scene.removed, scene.holds("p")) == (["p"], 0)


def test_a_pod_deleted_by_force_holds_its_devices_until_it_is_killed() -> None:
    scene = Scene(Habits(kill_delay_s=5))
    scene.show(pod("old", gpus=4))
    scene.hide("old")
    scene.show(pod("new", gpus=4))
    assert scene.book.refusals[0].cause is Cause.LINGERING
    scene.wait(5)
    scene.show(pod("later", gpus=4))
    assert (scene.phase("later"), scene.book.violations()) == ("Running", [])


def test_a_pod_deleted_before_it_started_is_removed_at_once() -> None:
    scene = Scene()
    notes = {"starts-after": "1h"}
    scene.show(pod("p", notes=notes))
    scene.show(pod("p", notes=notes, grace=30))
    assert (scene.removed, scene.holds("p")) == (["p"], 0)


def test_a_restarted_kubelet_gives_a_waiting_pod_the_devices_it_had() -> None:
    scene = Scene()
    notes = {"starts-after": "5s"}
    scene.show(pod("p", notes=notes, gpus=2))
    scene.show(pod("runs", gpus=2))
    before = scene.book.held("a")
    scene.host.restart()
    scene.reconcile(pod("p", notes=notes, gpus=2), pod("runs", gpus=2, phase="Running"))
    scene.wait(5)
    assert (scene.book.held("a"), scene.phase("p")) == (before, "Running")
    assert scene.host.room.used[GPU] == 4


def test_a_new_kubelet_finds_running_pods_before_it_admits_others() -> None:
    scene = Scene()
    scene.reconcile(pod("new", gpus=4), pod("old", gpus=4, phase="Running"))
    assert (scene.holds("old"), scene.reason("new")) == (4, "OutOfnvidia.com/gpu")


def test_a_node_that_was_away_kills_what_is_gone_meanwhile() -> None:
    scene = Scene(Habits(kill_delay_s=1))
    scene.show(pod("gone"))
    scene.show(pod("stays"))
    scene.reconcile(pod("stays", phase="Running"))
    scene.wait(1)
    assert (scene.holds("gone"), scene.holds("stays")) == (0, 1)


def test_pods_are_refused_when_the_test_says_so() -> None:
    scene = Scene()
    scene.host.to_refuse.append("NodeShutdown")
    scene.show(pod("one"))
    scene.show(pod("two", notes={"refuse": "UnexpectedAdmissionError"}))
    scene.show(pod("three"))
    assert (scene.reason("one"), scene.reason("two")) == (
        "NodeShutdown",
        "UnexpectedAdmissionError",
    )
    assert (scene.phase("three"), scene.book.overbooked()) == ("Running", [])


def test_an_annotation_that_means_nothing_fails_the_pod_and_says_why() -> None:
    scene = Scene()
    scene.show(pod("p", notes={"runs-for": "banana"}))
    assert "'banana'; write a duration like" in scene.written["p"]["message"]


@pytest.mark.parametrize(
    ("text", "thousandths", "units"),
    [
        ("1", 1000, 1),
        ("500m", 500, 1),
        ("1.5", 1500, 2),
        ("1n", 1, 1),
        ("2Gi", 2 * GIB * 1000, 2 * GIB),
        ("1e3", 1_000_000, 1000),
        ("12E", 2**63 - 1, 12 * 10**18),
        ("1E2", 100_000, 100),
        (".5k", 500_000, 500),
        ("1e-3", 1, 1),
    ],
)
def test_quantities_are_read_as_kubernetes_reads_them(
    text: str, thousandths: int, units: int
) -> None:
    assert (milli(text), whole(text)) == (thousandths, min(units, 2**63 - 1))


def test_a_request_counts_sidecars_always_and_init_containers_when_they_are_the_peak() -> None:
    def container(cpu: str, **more: str) -> dict[str, Any]:
        return {"name": cpu, "resources": {"requests": {"cpu": cpu}}} | more

    spec = {
        "containers": [container("1"), container("2")],
        "initContainers": [container("1", restartPolicy="Always"), container("5")],
        "overhead": {"cpu": "250m"},
    }
    assert requested(msgspec.convert(spec, PodSpec)) == {"cpu": 6250}


@pytest.mark.parametrize(
    ("key", "operator", "values", "expected"),
    [
        ("gpu", "In", ["h100"], True),
        ("gpu", "NotIn", ["h100"], False),
        ("other", "NotIn", ["h100"], True),
        ("gpu", "Exists", [], True),
        ("gpu", "DoesNotExist", [], False),
        ("size", "Gt", ["7"], True),
        ("size", "Lt", ["7"], False),
        ("gpu", "Gt", ["7"], False),
    ],
)
def test_required_node_affinity_is_understood(
    key: str, operator: str, values: list[str], expected: bool
) -> None:
    term = {"matchExpressions": [{"key": key, "operator": operator, "values": values}]}
    terms = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    spec = msgspec.convert({"affinity": {"nodeAffinity": terms}}, PodSpec)
    assert suits(spec, "a", {"gpu": "h100", "size": "8"}) is expected


# --- pods that are processes ----------------------------------------------------------------------

PROCESS = {"runs": "process"}


def test_a_process_ends_as_it_likes_and_its_last_word_is_told() -> None:
    scene = Scene(Habits(processes=1))
    scene.show(pod("p", notes=PROCESS))
    scene.wait(1e9)
    assert (scene.launched, scene.phase("p"), scene.holds("p")) == (["p"], "Running", 1)
    scene.exit("p", 85, "saved")
    assert (scene.phase("p"), scene.holds("p")) == ("Failed", 0)
    ended = scene.written["p"]["containerStatuses"][0]["state"]["terminated"]
    assert (ended["exitCode"], ended["message"]) == (85, "saved")


def test_a_process_of_a_deleted_pod_is_told_and_killed_when_its_grace_is_over() -> None:
    scene = Scene(Habits(processes=1))
    scene.show(pod("p", notes=PROCESS))
    scene.show(pod("p", notes=PROCESS, phase="Running", grace=30))
    scene.show(pod("p", notes=PROCESS, phase="Running", grace=30))  # seen again: told once
    scene.wait(29)
    assert scene.killed == [("p", False)]
    scene.wait(2)
    assert scene.killed == [("p", False), ("p", True)]
    assert (scene.holds("p"), scene.removed) == (1, [])  # until it is really dead
    scene.exit("p", 137)
    assert (scene.holds("p"), scene.removed) == (0, ["p"])


def test_a_process_that_obeys_frees_its_devices_before_its_grace_is_over() -> None:
    scene = Scene(Habits(processes=1))
    scene.show(pod("p", notes=PROCESS))
    scene.show(pod("p", notes=PROCESS, phase="Running", grace=30))
    scene.wait(1)
    scene.exit("p", 85)
    scene.wait(60)
    assert (scene.killed, scene.holds("p"), scene.removed) == ([("p", False)], 0, ["p"])


def test_a_process_whose_pod_was_deleted_by_force_is_killed_and_holds_its_devices_until_then() -> (
    None
):
    scene = Scene(Habits(processes=1, kill_delay_s=1))
    scene.show(pod("p", notes=PROCESS))
    scene.hide("p")
    scene.wait(2)
    assert (scene.killed, scene.holds("p")) == ([("p", True)], 1)
    scene.exit("p", 137)
    assert scene.holds("p") == 0


def test_a_process_that_is_started_again_keeps_how_it_ended() -> None:
    scene = Scene(Habits(processes=1, restart_delay_s=1))
    scene.show(pod("p", notes=PROCESS, restartPolicy="OnFailure"))
    scene.exit("p", 85, "saved")
    scene.wait(2)
    assert (scene.launched, scene.phase("p")) == (["p", "p"], "Running")
    (container,) = scene.written["p"]["containerStatuses"]
    assert (container["restartCount"], container["ready"]) == (1, True)
    assert container["lastState"]["terminated"]["message"] == "saved"


@pytest.mark.parametrize(
    ("habits", "notes", "message"),
    [
        (Habits(), PROCESS, "this kubelet runs no processes"),
        (Habits(processes=1), {"runs": "image"}, 'write "process" or nothing'),
        (Habits(processes=1), PROCESS | {"runs-for": "1s"}, "the process decides"),
    ],
)
def test_nothing_runs_that_was_not_asked_for_in_so_many_words(
    habits: Habits, notes: dict[str, str], message: str
) -> None:
    scene = Scene(habits)
    scene.show(pod("p", notes=notes))
    assert (scene.launched, scene.reason("p")) == ([], "UnreadableScript")
    assert message in scene.written["p"]["message"]
