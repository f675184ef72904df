"""Traces: what their lines mean, how they are replayed, and what is told of it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random

import pytest

from tests.cli.test_commands import Terminal
from tests.given import GIB, ask, cluster, job, node
from windlass import __version__
from windlass.model.gpus import Gpu, GpuRequest
from windlass.sim.baselines.srsf import srsf
from windlass.sim.traces.formats import guess, read_trace
from windlass.sim.traces.outcome import jain
from windlass.sim.traces.replay import Replay, cluster_of, workload_of
from windlass.sim.traces.rows import TraceError, TraceJob, lines_of

PHILLY = "timestamp,duration,num_gpus,gpu_time,cluster"
MURI = "job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval"
OPENB = "name,cpu_milli,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time"
OURS = "submit_s,duration_s,gpus,team,user,name,said_s"


def test_a_philly_trace_counts_seconds_from_its_first_job():
    late, early = "2017-10-09 07:01:55,66.0,1,66.0,b", "2017-10-09 07:00:55,9.6,8,76.8,a"
    assert read_trace([PHILLY, late, early]) == (TraceJob(0, 10, 8, "a"), TraceJob(60, 66, 1, "b"))


def test_a_muri_trace_counts_milliseconds_and_names_the_model():
    lines = [MURI, "0,4,0,9,vgg16,128,5000,0", "1,1,1500,9,bert,128,400,0"]
    assert read_trace(lines) == (TraceJob(0, 5, 4, name="vgg16"), TraceJob(2, 1, 1, name="bert"))


def test_our_own_format_may_say_who_and_how_long():
    assert read_trace([OURS, "5,60,2,a,ann,train,90"]) == (
        TraceJob(0, 60, 2, "a", "ann", "train", 90),
    )
    assert read_trace(["submit_s,duration_s,gpus", "5,60,2"]) == (TraceJob(0, 60, 2),)


def test_a_standard_workload_takes_processors_for_gpus_and_leaves_out_what_never_ran():
    ran = "1 10 -1 60 2 -1 -1 4 120 -1 1 7 3 -1 1 -1 -1 -1"
    never = "2 20 -1 -1 2 -1 -1 4 120 -1 0 7 3 -1 1 -1 -1 -1"
    assert read_trace(["; a comment", ran, "", never]) == (TraceJob(0, 60, 4, "3", "7", "", 120),)


def test_an_openb_trace_shares_gpus_and_leaves_out_pods_without():
    lines = [OPENB, "p1,4000,1,460,,10,70", "p2,8000,0,0,,20,30", "p3,8000,2,1000,T4,40,50"]
    shares, whole = read_trace(lines)
    assert (shares.at, shares.runs_s, shares.gpus, shares.milli) == (0, 60, 1, 460)
    assert (whole.at, whole.runs_s, whole.gpus, whole.milli) == (30, 10, 2, 1000)
    (arrival, _) = workload_of([shares, whole], cluster_of(1, 2), Replay()).arrivals
    assert arrival.tasks[0].shape.request.gpu == GpuRequest(1, 460)


def test_times_may_be_counted_from_1970():
    epoch = [OURS, "1700000000,60,2,a,,,", "1700000030,60,2,a,,,"]
    assert [job.at for job in read_trace(epoch)] == [0, 30]


@pytest.mark.parametrize(
    ("lines", "line", "says"),
    [
        ([], None, "it is empty"),
        ([PHILLY], None, "no job"),
        (["submit_s,gpus", "1,2"], 1, 'no column "duration_s"'),
        ([OURS, "5,60,two,a,,,"], 2, 'gpus is "two"; write a whole number'),
        ([OURS, "5,60,0,a,,,"], 2, 'gpus is "0"; write a whole number from 1 to 100,000'),
        ([OURS, "5,60,1.5,a,,,"], 2, 'gpus is "1.5"; write a whole number'),
        ([OURS, "5,-1,1,a,,,"], 2, 'duration_s is "-1"; write a number from 0 to 315,360,000$'),
        ([OURS, "-5,1,1,a,,,"], 2, 'submit_s is "-5"; write a number from 0$'),
        ([OURS, "5"], 2, "1 cell for 7 columns"),
        (["# ours", "", OURS, "5"], 4, "1 cell for 7 columns"),
        (["# ours", "submit_s,gpus", "1,2"], 2, 'no column "duration_s"'),
        ([OURS + ",gpus", "5,60,1,a,,,,2"], 1, 'two columns "gpus"; remove or rename one'),
        ([OURS, "1,1,1,,,,", '5,60,1,"a,,,', "6,60,1,a,,,"], 3, "is a quote left open"),
        ([OURS, '5,60,1,"a,,,', '6,60,1,a",,,'], 2, "a quote is not closed on this line"),
        ([OPENB, "p,4000,1,460,,70,10"], 2, "deletion_time is before creation_time"),
        ([OPENB, "p,4000,1,0,,10,70"], 2, 'gpu_milli is "0"; write a whole number from 1'),
        ([OURS, "5,60,1_0,a,,,"], 2, 'gpus is "1_0"; write a whole number'),
        ([OPENB, "p,4000,0,0,,10,70"], None, "none of its 1 jobs asks for GPUs and ran"),
        (["# only", ""], None, "it is empty"),
        (["; swf", "1"], 2, "it has 1 field; a line of SWF has 18"),
        ([OURS, "nan,1,1,a,,,"], 2, 'submit_s is "nan"'),
        ([OURS, "1700000000000,1,1,a,,,"], 2, "write seconds, counted from the first job or from"),
        ([OURS, "5,60"], 2, "2 cells for 7 columns"),
        ([PHILLY, "yesterday,1,1,1,a"], 2, 'timestamp is "yesterday"; write it like'),
        (["; swf", "1 2 3"], 2, "3 fields; a line of SWF has 18"),
    ],
)
def test_what_cannot_be_read_is_refused_with_its_line(
    lines: list[str], line: int | None, says: str
):
    with pytest.raises(TraceError, match=says) as refused:
        read_trace(lines)
    assert refused.value.line == line


@pytest.mark.parametrize(
    ("head", "row"),
    [
        (PHILLY, "2017-10-09 07:00:55,9.6,8,76.8,a"),
        (OURS, "5,10,8,a,,,"),
        (MURI, "0,8,0,9,a,128,10000,0"),
        (OPENB, "a,4000,8,1000,,10,20"),
    ],
)
def test_marks_empty_lines_and_comments_may_stand_before_the_columns(head: str, row: str):
    lines = lines_of(f"\ufeff\n# a comment\n\n{head}\n{row}\n".encode())
    (job,) = read_trace(lines)
    assert (job.runs_s, job.gpus) == (10, 8)


def test_the_format_is_known_by_the_first_line():
    found = [guess([each]) for each in (PHILLY, MURI, OPENB, OURS)]
    assert found == ["philly", "muri", "openb", "csv"]


def test_a_job_larger_than_a_node_takes_whole_nodes_and_a_part_of_one():
    (arrival,) = workload_of([TraceJob(0, 9, 20)], cluster_of(4, 8), Replay()).arrivals
    gpus = [task.shape.request.gpu for task in arrival.tasks]
    assert [each.count for each in gpus if each] == [8, 8, 4]
    assert arrival.gang.needed() == 3


def test_the_scheduler_is_not_told_how_long_a_job_runs_unless_it_is_meant_to_know():
    jobs, nodes = [TraceJob(0, 77, 1)], cluster_of(1, 1)
    assert workload_of(jobs, nodes, Replay()).arrivals[0].gang.duration_s is None
    assert workload_of(jobs, nodes, Replay(known=True)).arrivals[0].gang.duration_s == 77


def test_jains_index_is_one_if_all_fare_alike_and_a_half_if_one_of_two_has_it_all():
    assert jain([3.0, 3.0, 3.0]) == pytest.approx(1)
    assert jain([4.0, 0.0]) == pytest.approx(0.5)


def test_on_nodes_of_different_sizes_a_job_may_take_all_of_them():
    nodes = (*cluster_of(1, 4), *cluster_of(2, 2))
    (arrival,) = workload_of([TraceJob(0, 9, 7)], nodes, Replay()).arrivals
    gpus = [task.shape.request.gpu for task in arrival.tasks]
    assert [each.count for each in gpus if each] == [4, 2, 1]


# -- the command


@pytest.fixture(name="run")
def run_fixture(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def test_a_replay_answers_its_numbers_as_json(run: Terminal, tmp_path: Path):
    file = tmp_path / "trace.csv"
    file.write_text("submit_s,duration_s,gpus,team\n0,100,8,a\n10,50,8,b\n")
    found = run("simulate", "--trace", str(file), "--cluster", "1x8", "--json").json
    assert (found["jobs"], found["avg_jct_s"], found["avg_wait_s"]) == (2, 120, 45)
    assert (found["wait_p50_s"], found["wait_p99_s"], found["makespan_s"]) == (0, 90, 150)
    assert (found["utilization"], found["preemptions"], found["lost_gpu_hours"]) == (1.0, 0, 0.0)
    assert found["jain"] == pytest.approx((1 + 2.8) ** 2 / (2 * (1 + 2.8**2)), abs=1e-3)


def scenario(folder: Path, *nodes: str) -> str:
    """A scenario file that lends these nodes."""
    file = folder / "nodes.yaml"
    job = "{name: j, queue: q, gpus: 1, runs: 1h}"
    file.write_text(f"name: s\nnodes: [{', '.join(nodes)}]\nqueues: [{{name: q}}]\njobs: [{job}]\n")
    return str(file)


GPUS = "gpus: {model: A100-80GB, count: 8}"
ROOM = "cpu: 64, memory: 512Gi"


@pytest.mark.parametrize(
    "node",
    [
        f"{{name: a, {GPUS}}}",
        f"{{name: a, {GPUS}, {ROOM}, cordoned: true}}",
        f"{{name: a, {GPUS}, {ROOM}, taints: [{{key: k, value: v, effect: NoSchedule}}]}}",
        f"{{name: a, gpus: {{model: A100-80GB, unhealthy: [0]}}, {ROOM}}}",
    ],
)
def test_it_is_an_error_with_a_reason_if_no_job_ever_ran(node: str, run: Terminal, tmp_path: Path):
    file = tmp_path / "trace.csv"
    file.write_text("submit_s,duration_s,gpus\n0,100,1\n10,50,1\n")
    found = run("simulate", "--trace", str(file), "--cluster", scenario(tmp_path, node))
    assert found.status == 2
    assert "none of 2 jobs ever ended: job-1 waits: no node could ever run" in found.err


def test_jobs_that_never_ended_are_told_with_a_reason(run: Terminal, tmp_path: Path):
    file = tmp_path / "trace.csv"
    file.write_text("submit_s,duration_s,gpus\n0,100,1\n10,50,8\n")
    nodes = scenario(tmp_path, f"{{name: a, {GPUS}, cpu: 8, memory: 512Gi}}")
    found = run("simulate", "--trace", str(file), "--cluster", nodes, "--json")
    assert found.json["finished"] == 1
    assert "1 of 2 jobs never ended: job-2 waits: no node could ever run" in found.err
    assert found.err.endswith("; the numbers are those of the others.\n")


def test_jobs_that_are_left_out_are_told(run: Terminal, tmp_path: Path):
    ran = "1 10 -1 60 2 -1 -1 4 120 -1 1 7 3 -1 1 -1 -1 -1"
    never = "2 20 -1 -1 2 -1 -1 4 120 -1 0 7 3 -1 1 -1 -1 -1"
    nowhere = "3 20 -1 60 0 -1 -1 -1 120 -1 0 7 3 -1 1 -1 -1 -1"
    file = tmp_path / "trace.swf"
    file.write_text("\n".join(["; swf", ran, never, nowhere]), encoding="utf-8-sig")
    found = run("simulate", "--trace", str(file), "--cluster", "1x8", "--json")
    assert found.json["jobs"] == 1
    assert found.err == "2 of 3 jobs are left out: they ask for no GPUs, or never ran.\n"


def test_jobs_that_are_cut_down_to_the_cluster_are_told(run: Terminal, tmp_path: Path):
    file = tmp_path / "trace.csv"
    file.write_text("submit_s,duration_s,gpus\n0,100,4\n10,50,8\n")
    found = run("simulate", "--trace", str(file), "--cluster", "2x2", "--json")
    assert found.json["finished"] == 2
    told = "1 of 2 jobs ask for more GPUs than the cluster has: cut down to its 4.\n"
    assert found.err == told
    assert not run("simulate", "--trace", str(file), "--cluster", "1x8", "--json").err


def test_the_page_of_a_replay_fetches_nothing_from_anywhere(run: Terminal, tmp_path: Path):
    file = tmp_path / "trace.csv"
    file.write_text("\n".join(["submit_s,duration_s,gpus,team", *generated(40)]))
    where = str(tmp_path / "page")
    found = run("simulate", "--trace", str(file), "--cluster", "2x4", "--report", where)
    assert f"{tmp_path / 'page' / 'index.html'} is written" in found.err
    page = (tmp_path / "page" / "index.html").read_text()
    assert page.count("<svg") == 6
    assert "http" not in page
    assert "<script" not in page


def test_the_page_says_what_was_played_and_how(run: Terminal, tmp_path: Path):
    file = tmp_path / "a&b.csv"
    file.write_text("submit_s,duration_s,gpus\n0,3000,1\n10,20000,8\n")
    asked = ("simulate", "--trace", str(file), "--cluster", "1x8", "--report", str(tmp_path))
    assert not run(*asked, "--compare", "first-come", "--restart", "150s").status
    page = (tmp_path / "index.html").read_text()
    about = page.split("</h1><p>")[1].split("</p>")[0]
    assert about == (
        "trace a&amp;b.csv; cluster 1x8 (1 node, 8 GPUs); policy fair and first-come; "
        "restart 150 s; least run 1,800 s; durations not known to the scheduler; "
        f"Windlass {__version__}"
    )


@pytest.mark.parametrize(
    ("runs_s", "marks"), [(1, ["0 min"]), (900, ["0 min", "5 min"]), (30_000, ["0:00 h", "1:00 h"])]
)
def test_the_time_axis_is_labelled_however_short_the_trace(
    runs_s: int, marks: list[str], run: Terminal, tmp_path: Path
):
    file = tmp_path / "trace.csv"
    rows = [f"{at},{runs_s // 10 + 1},8" for at in range(0, runs_s, max(1, runs_s // 10))]
    file.write_text("\n".join(["submit_s,duration_s,gpus", *rows]))
    run("simulate", "--trace", str(file), "--cluster", "1x8", "--report", str(tmp_path))
    page = (tmp_path / "index.html").read_text()
    assert [page.count(f">{mark}</text>") for mark in marks] == [4] * len(marks)


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--trace", "nowhere.csv", "--cluster", "1x8"), "nowhere.csv: it cannot be read"),
        (("--trace", "x.csv"), "--trace needs --cluster"),
        (("--trace", "x.csv", "--cluster", "0x8"), "write it like 8x8"),
        (("--trace", "x.csv", "--cluster", "1x1000"), "1 to 20000 nodes of 1 to 64 GPUs"),
        (("--trace", "x.csv", "--cluster", "1x8", "--compare", "fair"), "name another order"),
        (("day", "--trace", "x.csv", "--cluster", "1x8"), "does not go with --trace"),
        (("day", "--policy", "shortest"), "belongs to --trace"),
        ((), "Give a scenario file, day, week"),
    ],
)
def test_what_does_not_go_together_is_refused_in_one_sentence(
    arguments: tuple[str, ...],
    says: str,
    run: Terminal,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.chdir(tmp_path)
    Path("x.csv").write_text("submit_s,duration_s,gpus\n0,1,1\n")
    found = run("simulate", *arguments)
    assert found.status == 2
    assert says in " ".join(found.err.split())


# -- the public traces


@pytest.mark.parametrize("name", ["trace1", "trace3"])
def test_the_public_muri_traces_can_be_read(name: str, require: Callable[..., Path]):
    jobs = read_trace(public(f"muri/{name}.csv", require).read_text().splitlines())
    assert len(jobs) == {"trace1": 1494, "trace3": 992}[name]


def test_the_public_philly_trace_offers_more_than_512_gpus_can_do(require: Callable[..., Path]):
    jobs = read_trace(public("philly/philly_2017_10.csv", require).read_text().splitlines())
    offered = sum(job.runs_s * job.gpus for job in jobs) / (512 * jobs[-1].at)
    assert len(jobs) == 47_192
    assert offered == pytest.approx(1.15, abs=0.01)


def public(name: str, require: Callable[..., Path]) -> Path:
    folder = os.environ.get("WINDLASS_DATA")
    file = Path(folder) / "traces" / name if folder else None
    sentence = "set WINDLASS_DATA to the folder of public data to read its traces"
    return require(file if file and file.exists() else None, sentence)


def generated(count: int) -> Iterator[str]:
    """Jobs as in a public trace: most are small and short, a few are large or long."""
    chance, at = Random(7), 0
    for _ in range(count):
        at += int(chance.expovariate(1 / 60))
        gpus = chance.choice((1, 1, 1, 1, 2, 4, 8))
        yield f"{at},{max(1, int(chance.lognormvariate(5, 2)))},{gpus},{chance.choice('abc')}"


def test_srsf_by_the_book_needs_durations_and_stops_more_than_shortest(
    run: Terminal, tmp_path: Path
):
    file = tmp_path / "trace.csv"
    file.write_text("\n".join(["submit_s,duration_s,gpus,team", *generated(150)]))
    asked = ("simulate", "--trace", str(file), "--cluster", "1x8", "--policy", "shortest", "--json")
    assert run(*asked, "--compare", "srsf").status == 2
    found = run(*asked, "--compare", "srsf", "--durations-known", "--min-run", "1m").json
    assert found["srsf"]["finished"] == found["shortest"]["finished"] == 150
    assert found["shortest"]["preemptions"] < found["srsf"]["preemptions"]


def test_srsf_by_the_book_uses_healthy_gpus_only():
    cards = (Gpu("H100-80GB", 80 * GIB, healthy=False), Gpu("H100-80GB", 80 * GIB))
    there = cluster(node("n1", cards=cards), job("a", 1, ask(2)), job("b", 1, ask(1)))
    (bind,) = srsf(there).binds
    assert (bind.task, [each.device for each in bind.devices]) == ("b-0", [1])


def test_srsf_by_the_book_stops_nobody_whose_node_has_other_gpus_left(
    run: Terminal, tmp_path: Path
):
    file = tmp_path / "trace.csv"
    file.write_text("submit_s,duration_s,gpus\n0,1000,1\n10,10,1\n")
    asked = ("simulate", "--trace", str(file), "--cluster", "1x2", "--policy", "shortest", "--json")
    found = run(*asked, "--compare", "srsf", "--durations-known").json
    assert (found["srsf"]["preemptions"], found["srsf"]["avg_wait_s"]) == (0, 0)
