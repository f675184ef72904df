"""The live view, its SVG picture, and the commands `simulate` and `demo`."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from tests.given import RACKS, ask, job, node, queue, rack
from tests.support.checkout import ROOT
from tests.support.small_workloads import Thing, arrives, work
from windlass.cli import main
from windlass.cli.format import clock, duration, gpus
from windlass.cli.live_view.palette import colours
from windlass.cli.live_view.view import TerminalSize, render
from windlass.cli.output import reason_sentence
from windlass.engine.plan import Plan, Verdict
from windlass.model.actions import Hold, PlaceClaim
from windlass.model.gpus import Slice
from windlass.model.jobs import GangId, TaskId
from windlass.sim.generate.week import generate
from windlass.sim.run import Simulation, SimulationMoment
from windlass.sim.workload import NodeChange

DOCS = ROOT / "docs" / "reference" / "simulate.md"
EXAMPLE = ROOT / "examples" / "02-two-teams.yaml"
SMALL = TerminalSize(80, 24)
SIZES = [
    TerminalSize(60, 16),
    SMALL,
    TerminalSize(100, 30),
    TerminalSize(140, 40),
    TerminalSize(220, 60),
]


@pytest.fixture(name="busy", scope="module")
def busy_fixture() -> SimulationMoment:
    """The cluster in a busy afternoon of a generated day."""
    simulation = Simulation(generate(2))
    simulation.run(until=15 * 3600)
    return simulation.moment()


def moment_of(*things: Thing, at: int = 50) -> SimulationMoment:
    simulation = Simulation(work(*things))
    simulation.run(until=at)
    return simulation.moment()


def lines(moment: SimulationMoment, size: TerminalSize = SMALL) -> list[str]:
    console = Console(width=size.width, height=size.height, file=io.StringIO(), color_system=None)
    console.print(render(moment, size))
    return console.file.getvalue().splitlines()  # type: ignore[attr-defined]


def cells(moment: SimulationMoment) -> str:
    """Return the cells of a map of one row, without the names of rack and model."""
    return lines(moment)[2][10:].split("  ")[0].strip()


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size.width}x{size.height}")
def test_a_frame_fits_the_terminal(busy: SimulationMoment, size: TerminalSize):
    frame = lines(busy, size)
    assert len(frame) <= size.height
    assert max(len(line) for line in frame) <= size.width


@pytest.mark.parametrize("size", SIZES[1:], ids=lambda size: f"{size.width}x{size.height}")
def test_the_first_waiting_gang_is_shown_with_its_reason(
    busy: SimulationMoment, size: TerminalSize
):
    first = next(decision for decision in busy.plan.decisions if decision.position == 1)
    frame = lines(busy, size)
    row = next(index for index, line in enumerate(frame) if line.startswith("  1 "))
    gang = busy.cluster.gangs[first.gang]
    reason = first.reasons[0]
    assert gang.id in frame[row] or gang.job in frame[row]
    sentence = reason_sentence(str(reason), reason.values)
    assert sentence[:40] in " ".join(frame[row : row + 2])


def test_every_gpu_of_the_cluster_has_a_cell(busy: SimulationMoment):
    rows = [re.match(r"[a-z]\d +\w+ +([▁-█·░▒×┄ ]+)", line) for line in lines(busy)]
    shown = "".join(row[1] for row in rows if row).replace(" ", "")
    assert len(shown) == sum(len(node.gpus) for node in busy.cluster.nodes.values())


def test_the_header_shows_the_gpus_in_use():
    moment = moment_of(node("n", gpus=4), arrives(job("a", 1, ask(gpus=3))))
    assert (
        lines(moment)[0]
        == "Windlass  Mon 00:00  4 GPUs  75 % in use  75 % useful  0 waiting  0 done"
    )


def test_cells_show_whole_used_partly_used_and_free_gpus():
    whole, half = job("a", 1, ask(gpus=1)), job("b", 1, ask(gpus=1, milli=500))
    assert sorted(cells(moment_of(node("n", gpus=3), arrives(whole), arrives(half)))) == sorted(
        "█▄·"
    )


def test_cells_show_holds_and_reservations():
    moment = moment_of(node("n", gpus=2), arrives(job("a", 1, ask(gpus=3))))
    claims = [PlaceClaim(TaskId("a-0"), "n", (Slice(device, 1000),)) for device in (0, 1)]
    now = Plan(holds=(Hold(GangId("a"), (claims[0],)),))
    assert cells(replace(moment, plan=now)) == "░·"
    later = Plan(holds=(Hold(GangId("a"), (claims[1],), starts_at=99),))
    assert cells(replace(moment, plan=later)) == "·▒"


def test_cells_show_nodes_that_are_cordoned_or_gone():
    machines = rack("r1", "n1", "n2", "n3", gpus=2)
    gone, cordoned = NodeChange(5, "n1", None), replace(machines[1], cordoned=True)
    moment = moment_of(RACKS, machines[0], cordoned, machines[2], gone)
    assert cells(moment) == "┄┄ ×× ··"


def test_a_row_of_the_map_is_a_rack():
    nodes = (*rack("r1", "n1", "n3", gpus=1), *rack("r2", "n2", gpus=1))
    frame = lines(moment_of(RACKS, *nodes))
    assert [line[:2] for line in frame[2:4]] == ["r1", "r2"]


def test_the_bar_of_a_queue_shows_its_guarantee_and_borrowed_gpus():
    teams = queue("x", gpus=1), queue("y", gpus=3)
    row = next(
        line
        for line in lines(
            moment_of(node("n", gpus=4), *teams, arrives(job("a", 1, ask(gpus=3), queue="x")))
        )
        if " x " in line
    )
    assert "█▓" in row
    assert "3.0" in row


def test_gangs_of_one_job_share_a_row():
    sweep = [job(f"s{i}", 1, ask(gpus=1)) for i in range(9)]
    gangs = [replace(one, gang=replace(one.gang, job="sweep")) for one in sweep]
    frame = lines(moment_of(node("n", gpus=2), *(arrives(gang) for gang in gangs)))
    assert any(re.search(r"sweep +team +7 × 1 GPU", line) for line in frame)
    assert any("sweep (2 gangs) placed: 2 tasks on n" in line for line in frame)


def test_a_frame_says_that_no_gang_waits():
    assert "Waiting  no gang" in lines(moment_of(node("n", gpus=1)))


def test_gangs_that_can_never_start_come_last_without_a_position():
    moment = moment_of(
        node("n", gpus=1),
        arrives(job("huge", 1, ask(gpus=9))),
        arrives(job("a", 1, ask(gpus=1)), at=1),
        arrives(job("b", 1, ask(gpus=1)), at=2),
    )
    assert {decision.verdict for decision in moment.plan.decisions} == {
        Verdict.WAITS,
        Verdict.NEVER,
    }
    rows = [line for line in lines(moment) if re.match(r"  [0-9–] ", line)]
    assert [line.split()[:2] for line in rows] == [["2", "b"], ["–", "huge"]]


def test_queues_have_different_colours_and_children_have_steps_of_the_hue():
    tree = {found.name: found for found in generate(1, hours=1).queues}
    palette = colours(tree)
    leaves = ["language", "vision", "ranking", "serving"]
    assert len({palette[name] for name in leaves}) == 4
    assert palette["lab"] == palette["language"]
    many = {f"q{i}": queue(f"q{i}") for i in range(9)}
    assert len(set(colours(many).values())) == 9


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0, "0 s"),
        (99, "99 s"),
        (100, "1 min"),
        (5999, "99 min"),
        (13260, "3 h 41"),
        (234000, "2 d 17 h"),
    ],
)
def test_durations_have_fitting_units(seconds: int, words: str):
    assert duration(seconds) == words


def test_clocks_and_gpus_are_short():
    assert (clock(0), clock(86400 * 8 + 3660)) == ("Mon 00:00", "Tue 01:01")
    assert (gpus(1000), gpus(250), gpus(1500), gpus(1_144_000)) == ("1", "0.25", "1.5", "1,144")


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as left:
        main(arguments)
    out, err = capsys.readouterr()
    return int(left.value.code or 0), out, err


SHORT = ("--hours", "3", "--nodes", "4")


def test_simulate_shows_both_schedulers_side_by_side(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "simulate", "day", *SHORT, "--compare", "default")
    assert status == 0
    assert re.search(r"GPU utilisation .* \d+\.\d % +\d+\.\d %", out)
    assert "times the useful work" in out
    assert "a whole GPU for a task that asks for a part of one" in out
    assert max(len(line) for line in out.splitlines()) <= 84


def test_simulate_runs_a_scenario_to_rest(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "simulate", str(EXAMPLE), "--json")
    assert status == 0
    assert json.loads(out)["windlass"]["gangs"]["waiting"] == 0


def test_simulate_gives_the_same_json_for_the_same_seed(capsys: pytest.CaptureFixture[str]):
    arguments = ("simulate", "day", *SHORT, "--seed", "7", "--json")
    assert run(capsys, *arguments) == run(capsys, *arguments)


def test_every_key_of_the_json_is_documented(capsys: pytest.CaptureFixture[str]):
    _, out, _ = run(capsys, "simulate", "day", *SHORT, "--compare", "default", "--json")
    documented = set(re.findall(r"`([a-z0-9_]+)`", DOCS.read_text()))
    assert set(keys(json.loads(out))) - documented == set()


def keys(value: object) -> Iterator[str]:
    """Yield all keys in a JSON value, at any depth."""
    if isinstance(value, dict):
        yield from value
    for part in (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    ):
        yield from keys(part)


def test_options_of_generated_work_are_refused_for_a_scenario(capsys: pytest.CaptureFixture[str]):
    status, _, err = run(capsys, "simulate", str(EXAMPLE), "--seed", "3")
    assert status == 2
    assert "--seed belongs to a generated day or week" in err


def test_demo_without_a_terminal_prints_a_line_per_hour_and_the_comparison(
    capsys: pytest.CaptureFixture[str],
):
    status, out, _ = run(capsys, "demo", "--nodes", "3")
    assert status == 0
    assert len(re.findall(r"^(?:Mon|Tue) \d\d:00  ", out, re.MULTILINE)) == 24
    assert "with and without Windlass" in out
    assert "times the useful work" in out


def test_demo_stops_when_its_time_is_up(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "demo", "--nodes", "3", "--for", "0")
    assert status == 0
    assert "Mon 01:00" not in out


def test_demo_shows_one_frame(capsys: pytest.CaptureFixture[str]):
    status, out, _ = run(capsys, "demo", "--nodes", "3", "--once")
    assert status == 0
    assert out.startswith("Windlass  Mon 1")


def test_the_picture_loads_nothing_from_elsewhere(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    file = tmp_path / "run.svg"
    status, _, _ = run(capsys, "demo", "--nodes", "3", "--picture", str(file))
    text = file.read_text()
    assert status == 0
    assert set(re.findall(r"https?://[^\"]*", text)) == {"http://www.w3.org/2000/svg"}
    assert "@font-face" not in text
    assert text.count("█") > 10
