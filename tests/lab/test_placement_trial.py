"""The trial of packing: its protocol, its referee, and what it shows on traces."""

import json
import os
from pathlib import Path
from random import Random

import pytest
from click.testing import CliRunner

from windlass.cli import windlass
from windlass.model.actions import Bind
from windlass.model.errors import InputError, WindlassError
from windlass.model.gpus import GpuRequest, Slice
from windlass.model.jobs import TaskId
from windlass.model.resources import Request
from windlass.sim.traces.openb import read_nodes, read_pods
from windlass_lab.trials.departures import LASTS, allocated_hours, lived_in, stays_of
from windlass_lab.trials.made_trace import made_nodes, made_pods
from windlass_lab.trials.packers import OWN, POLICIES, REDRAWN
from windlass_lab.trials.placement import Trial, arrivals, figures, milli_of, try_out
from windlass_lab.trials.referee import Foul, Referee

NODES, PODS = made_nodes(18), made_pods(120, seed=1)
HALF = Request(1000, 1024, GpuRequest(milli=500))

# --- the protocol ---------------------------------------------------------------------------------


def test_pods_are_repeated_until_130_per_cent_are_asked_for():
    found = arrivals(PODS, NODES, Random(1))
    most = sum(len(node.gpus) for node in NODES) * 1300
    assert set(PODS) <= set(found)
    assert most - 1000 <= sum(milli_of(pod.request) for pod in found) <= most + 7000


def test_pods_are_left_out_where_the_trace_asks_for_more():
    found = arrivals(PODS, NODES[:3], Random(1))
    assert len(found) < len(PODS)
    assert sum(milli_of(pod.request) for pod in found) <= 12 * 1300


@pytest.mark.parametrize("name", POLICIES)
def test_the_referee_finds_no_fault_with_any_policy(name):
    trial = Trial(NODES, PODS, 1, policy=POLICIES[name], redrawn=name in REDRAWN)
    told = figures(try_out(trial))
    assert 60 < told["allocation_at_100"] <= told["allocation_at_130"] <= 100


def test_a_trial_is_the_same_every_time():
    one, two = (try_out(Trial(NODES, PODS, 7, mix_given=False)) for _ in range(2))
    assert [each.allocated for each in one] == [each.allocated for each in two]


def test_more_is_allocated_than_at_random():
    tries = range(3)
    own = sum(try_out(Trial(NODES, PODS, seed))[-1].allocated for seed in tries)
    chance = sum(
        try_out(Trial(NODES, PODS, seed, policy=POLICIES["random"], redrawn=True))[-1].allocated
        for seed in tries
    )
    assert own > chance


# --- the referee ----------------------------------------------------------------------------------


def test_what_fits_somewhere_may_not_be_refused():
    with pytest.raises(Foul, match="was refused and fits 18 nodes"):
        Referee(NODES).judge(HALF, None)


def test_nothing_may_be_placed_where_it_does_not_fit():
    referee, name = Referee(NODES[1:2]), NODES[1].name
    referee.judge(HALF, Bind(TaskId("a"), name, (Slice(0, 500),)))
    referee.judge(HALF, Bind(TaskId("b"), name, (Slice(0, 500),)))
    with pytest.raises(Foul, match="was given"):
        referee.judge(HALF, Bind(TaskId("c"), name, (Slice(0, 500),)))


# --- departures -----------------------------------------------------------------------------------


def test_pods_that_leave_make_room_for_others():
    told = allocated_hours(Trial(NODES, PODS, 1), load=50)
    assert told["gpu_hours"] > 0.9 * told["gpu_hours_asked"]


def test_under_a_load_as_much_is_asked_for_at_any_instant_as_said():
    stays = lived_in(stays_of(PODS), 1000 * 72, Random(1))
    for instant in range(0, LASTS, LASTS // 8):
        there = [each for each in stays if each.at <= instant < each.at + each.seconds]
        asked = sum(milli_of(each.pod.request) for each in there)
        assert asked == pytest.approx(72_000, rel=0.35)


# --- files and the command ------------------------------------------------------------------------


def written(folder):
    """The made trace as files of the format."""
    nodes = ["sn,cpu_milli,memory_mib,gpu,model"]
    nodes += [
        f"{n.name},{n.cpu_milli},{n.memory_mib},{len(n.gpus)},{n.gpus[0].model}" for n in NODES
    ]
    pods = ["name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time"]
    for pod in PODS:
        gpu = pod.request.gpu or GpuRequest(0, 0)
        amounts = f"{pod.request.cpu_milli},{pod.request.memory_mib},{gpu.count},{gpu.milli}"
        times = f"{pod.created_at},{pod.deleted_at}"
        pods.append(f"{pod.name},{amounts},{'|'.join(gpu.models)},{times}")
    (folder / "nodes.csv").write_text("\n".join(nodes) + "\n")
    (folder / "pods.csv").write_text("\n".join(pods) + "\n")
    return str(folder / "nodes.csv"), str(folder / "pods.csv")


def test_a_trace_is_read_as_it_was_written(tmp_path):
    nodes, pods = written(tmp_path)
    assert read_nodes(nodes) == NODES
    assert read_pods(pods) == PODS


def test_a_row_that_cannot_be_read_is_named(tmp_path):
    file = tmp_path / "pods.csv"
    file.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,one,1,0,0\n")
    with pytest.raises(InputError, match=r':2: cpu_milli is "one"; write a whole number'):
        read_pods(str(file))


@pytest.mark.parametrize("before", ["\ufeff", "\n\n", "# a comment\n", "\ufeff# one\n\n# two\n"])
def test_marks_empty_lines_and_comments_may_stand_before_the_columns(before, tmp_path):
    for file in written(tmp_path):
        Path(file).write_text(before + Path(file).read_text(), encoding="utf-8")
    assert read_nodes(str(tmp_path / "nodes.csv")) == NODES
    assert read_pods(str(tmp_path / "pods.csv")) == PODS


@pytest.mark.parametrize(
    ("row", "says"),
    [
        ("p,1000,1024,1,500,20,10", ":3: deletion_time is before creation_time"),
        ('"p,1000,1024,1,500,10,20', ":3: it is not CSV"),
        ("p,1000,1024,1.5,500,10,20", ':3: num_gpu is "1.5"; write a whole number'),
    ],
)
def test_a_row_that_contradicts_itself_is_named(row, says, tmp_path):
    file = tmp_path / "pods.csv"
    head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time"
    file.write_text(f"# a comment\n{head}\n{row}\n")
    with pytest.raises(InputError, match=says):
        read_pods(str(file))


def test_a_list_without_rows_is_refused(tmp_path):
    file = tmp_path / "pods.csv"
    file.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n")
    with pytest.raises(InputError, match="nothing follows its first line"):
        read_pods(str(file))


def test_without_times_nobody_can_depart(tmp_path):
    nodes, _ = written(tmp_path)
    pods = tmp_path / "still.csv"
    pods.write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1000,1024,1,500\n")
    asked = ["bench", "placement", "--nodes", nodes, "--pods", str(pods), "--departures"]
    told = CliRunner().invoke(windlass, asked)
    assert "no pod with GPUs has a creation_time" in str(told.exception)


def test_the_command_tells_the_five_figures_and_draws_the_curves(tmp_path):
    nodes, pods = written(tmp_path)
    asked = ["bench", "placement", "--nodes", nodes, "--pods", pods, "--seeds", "1-2", "--json"]
    plot = tmp_path / "plot.svg"
    more = ["--policy", "windlass,best-fit", "--plot", str(plot)]
    told = json.loads(CliRunner().invoke(windlass, asked + more).stdout)
    assert told["allocation_at_130"] == told["policies"][OWN]["allocation_at_130"]
    assert set(told["policies"]["best-fit"]) == {
        "allocation_at_100",
        "allocation_at_130",
        "fragmentation_at_80",
        "decision_ms_p50",
        "decision_ms_p99",
    }
    assert plot.read_text().count("<polyline") == 2


def tried(folder, nodes=None, pods=None, *more):
    """What the command says of rows like these; the made ones where none are given."""
    node_file, pod_file = written(folder)
    if nodes is not None:
        Path(node_file).write_text("sn,cpu_milli,memory_mib,gpu,model\n" + nodes)
    if pods is not None:
        Path(pod_file).write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + pods)
    asked = ["bench", "placement", "--nodes", node_file, "--pods", pod_file, "--seeds", "1"]
    return CliRunner().invoke(windlass, [*asked, *more])


@pytest.mark.parametrize(
    ("nodes", "pods", "says"),
    [
        (None, "p,1000,1024,0,0\n", "no pod asks for GPUs; give"),
        ("n,9000,9000,99999,T4\n", None, 'gpu is "99999"; write a whole number from 0 to 64'),
        ("n,9000,9000,0,\n", None, "no node has a GPU; give"),
        ("n,9000,9000,1,T4\n", "p,1000,1024,2,1000\n", "more than 130 % of all GPUs"),
        (None, "p,1000,1024,1,1001\n", 'gpu_milli is "1001"; write a whole number from 1 to 1,000'),
        (None, "p,1000,1024,1,0\n", 'gpu_milli is "0"; write a whole number from 1 to 1,000'),
    ],
)
def test_lists_that_cannot_be_tried_are_refused_in_one_sentence(nodes, pods, says, tmp_path):
    refused = tried(tmp_path, nodes, pods).exception
    assert isinstance(refused, WindlassError)
    assert says in str(refused)


def test_a_pod_larger_than_everything_is_left_out_and_the_others_are_tried(tmp_path):
    nodes, pods = "n,9000,9000,2,T4\n", "p,1000,1024,8,1000\nq,1000,1024,1,1000\n"
    told = json.loads(tried(tmp_path, nodes, pods, "--json").stdout)
    assert told["allocation_at_100"] == 100


@pytest.mark.parametrize("seeds", ["1-1000000000", "1-1001", f"1-{10**30}"])
def test_more_than_a_thousand_seeds_are_refused(seeds, tmp_path):
    told = tried(tmp_path, None, None, "--seeds", seeds)
    assert told.exit_code == 2
    assert "seeds" in told.output


# --- the published traces -------------------------------------------------------------------------


def test_the_default_trace_is_packed_better_than_published(require):
    data = require(os.environ.get("WINDLASS_DATA"), "set WINDLASS_DATA to the published traces")
    folder = Path(data) / "traces" / "openb"
    nodes = read_nodes(str(folder / "openb_node_list_gpu_node.csv"))
    pods = read_pods(str(folder / "openb_pod_list_default.csv"))
    told = figures(try_out(Trial(nodes, pods, 42)))
    assert told["allocation_at_130"] >= 95.6
    assert told["allocation_at_100"] >= 95.6
