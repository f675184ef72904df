"""Commands as a user calls them: output, exit status, no traceback; and the table of commands."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import click
import pytest

from tests.support.checkout import ROOT
from tests.support.command_output import Answer
from windlass.cli import COMMANDS, ENTRY_POINTS, main, windlass

EXAMPLES = ROOT / "examples"
RACKS = str(EXAMPLES / "10-rack-local.yaml")
GANG = str(EXAMPLES / "01-gang-whole-or-not.yaml")
PROGRAM = [sys.executable, "-c", "from windlass.cli import main; main()"]


class Terminal:
    """Runs commands in this process and returns their output."""

    def __init__(self, capture: pytest.CaptureFixture[str]) -> None:
        self._capture = capture

    def __call__(self, *arguments: str) -> Answer:
        with pytest.raises(SystemExit) as left:
            main(arguments)
        out, err = self._capture.readouterr()
        return Answer(int(left.value.code or 0), out, err)


@pytest.fixture(name="run")
def run_fixture(capsys: pytest.CaptureFixture[str]) -> Terminal:
    return Terminal(capsys)


def write(folder: Path, text: str, name: str = "x.yaml") -> str:
    file = folder / name
    file.write_text(text)
    return str(file)


def small(expect: str) -> str:
    return (
        "name: small\n"
        "nodes: [{name: a, gpus: {model: A100-80GB}}]\n"
        "queues: [{name: q}]\n"
        "jobs: [{name: j, queue: q, gpus: 1, runs: 1h}]\n"
        f"expect:\n  - {expect}\n"
    )


# -- windlass scenario


def test_scenarios_that_meet_their_expectations_pass(run: Terminal) -> None:
    answer = run("scenario", GANG, RACKS)
    assert answer == Answer(0, "2 passed, 0 failed\n", "")


def test_an_unmet_expectation_is_printed_with_its_line(run: Terminal, tmp_path: Path) -> None:
    file = write(tmp_path, small("{job: j, at: 30m, state: waiting}"))
    answer = run("scenario", file, GANG)
    assert answer.status == 1
    assert answer.out.splitlines() == [
        f"{file}:6: job j at 30m: expected state waiting, found running",
        "1 passed, 1 failed",
    ]


def test_unmet_expectations_are_printed_as_json(run: Terminal, tmp_path: Path) -> None:
    file = write(tmp_path, small("{job: j, state: running}"))
    answer = run("scenario", "--json", file)
    assert answer.status == 1
    assert (answer.json["passed"], answer.json["failed"]) == (0, 1)
    assert answer.json["scenarios"][0]["differences"] == [
        {
            "line": 6,
            "subject": "job j at rest",
            "expected": "state running",
            "found": "finished",
        }
    ]


def test_no_scenario_is_simulated_if_one_file_is_invalid(run: Terminal, tmp_path: Path) -> None:
    file = write(tmp_path, small("{job: j, state: dreaming}"))
    answer = run("scenario", GANG, file)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith(f"{file}:6: expect: state: expected 'absent'")
    assert len(answer.err.splitlines()) == 1


@pytest.mark.parametrize("file", ["missing.yaml", ".", "a\0b", ""])
def test_a_file_that_cannot_be_read_gives_one_sentence(run: Terminal, file: str) -> None:
    for arguments in (["scenario", file], ["plan", file], ["explain", "j", "--snapshot", file]):
        answer = run(*arguments)
        assert (answer.status, answer.out) == (2, "")
        assert "it cannot be read" in answer.err
        assert len(answer.err.splitlines()) == 1


def test_an_endless_file_is_refused(run: Terminal) -> None:
    if os.path.exists("/dev/zero"):
        answer = run("scenario", "/dev/zero")
        assert answer.status == 2
        assert "4 MiB" in answer.err


def test_the_schema_is_printed(run: Terminal) -> None:
    assert run("scenario", "--schema").json["title"] == "Scenario"


# -- snapshots and plans


@pytest.fixture(name="snapshot")
def snapshot_fixture(run: Terminal, tmp_path: Path) -> str:
    file = str(tmp_path / "cluster.json")
    answer = run("scenario", RACKS, "--snapshot-at", "3m", "--out", file)
    assert answer == Answer(0, "", "")
    return file


def test_a_plan_shows_starts_waiting_gangs_and_queues(run: Terminal, snapshot: str) -> None:
    lines = run("plan", snapshot).out.splitlines()
    assert lines[0] == "At 3m: 10 nodes with 80 GPUs, 7 gangs, 10 tasks"
    assert "  lenient (queue research): 2 tasks" in lines
    assert any(line.startswith("    lenient-0 on node-") for line in lines)
    assert "  1. strict-too (queue research)" in lines
    assert "     It needs 2 tasks inside one rack; the best has room for 1 now." in lines
    assert "queue     guarantee  share  allocated  limit" in lines
    assert max(map(len, lines)) <= 80


def test_a_plan_is_printed_as_json(run: Terminal, snapshot: str) -> None:
    plan = run("plan", "--json", snapshot).json
    assert {bind["gang"] for bind in plan["binds"]} == {"lenient"}
    assert len(plan["binds"][0]["devices"]) == 8
    waits = next(decision for decision in plan["decisions"] if decision["gang"] == "strict-too")
    assert (waits["verdict"], waits["position"]) == ("Waits", 1)
    assert waits["reasons"][0]["why"] == "NoDomain"
    assert {row["queue"] for row in plan["queues"]} == {"others", "research"}


def test_gangs_of_a_queue_with_equal_reasons_are_listed_once(run: Terminal, tmp_path: Path) -> None:
    file = str(tmp_path / "cluster.json")
    scenario = write(
        tmp_path,
        """
        name: alike
        nodes: [{name: n, cpu: 8, memory: 64Gi, gpus: {model: A100-80GB, count: 2}}]
        queues: [{name: team}]
        jobs:
          - {name: huge, queue: team, gpus: 2, tasks: 3}
          - {name: same, queue: team, gpus: 1, count: 5, at: 1m}
        """,
    )
    assert run("scenario", scenario, "--snapshot-at", "1m", "--out", file).status == 0
    waiting = run("plan", file).out.partition("Waits")[2]
    assert waiting.count("(queue team)") == 2
    assert "     and 2 more gangs like it" in waiting.splitlines()


def test_a_plan_without_starts_says_so(run: Terminal, tmp_path: Path) -> None:
    answer = run("plan", write(tmp_path, "{}"))
    assert answer.status == 0
    assert "Nothing starts now." in answer.out


def test_the_same_snapshot_gives_the_same_plan(run: Terminal, snapshot: str) -> None:
    assert run("plan", "--json", snapshot).out == run("plan", "--json", snapshot).out


def test_a_snapshot_is_read_from_stdin(snapshot: str) -> None:
    data = Path(snapshot).read_bytes()
    ran = subprocess.run([*PROGRAM, "plan", "-"], input=data, capture_output=True, check=False)
    assert (ran.returncode, ran.stderr) == (0, b"")
    assert b"lenient (queue research): 2 tasks" in ran.stdout


@pytest.mark.parametrize("data", ["", "[]", "{", '{"now": null}', "nonsense", "[" * 10_000])
def test_a_file_that_is_not_a_snapshot_gives_one_sentence(
    run: Terminal, tmp_path: Path, data: str
) -> None:
    file = write(tmp_path, data)
    answer = run("plan", file)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err.startswith(f"{file}:1: this is not a snapshot: ")
    assert len(answer.err.splitlines()) == 1


def test_a_snapshot_that_cannot_be_written_leaves_no_file(run: Terminal, tmp_path: Path) -> None:
    answer = run("scenario", GANG, "--snapshot-at", "0", "--out", str(tmp_path / "no" / "x.json"))
    assert answer.status == 2
    assert "it cannot be written" in answer.err
    assert list(tmp_path.iterdir()) == []


# -- windlass explain


def test_a_waiting_job_is_explained_with_numbers(run: Terminal) -> None:
    answer = run("explain", "gang", "--scenario", GANG, "--at", "20m")
    lines = answer.out.splitlines()
    assert lines[0] == "gang waits for 2 tasks, number 1 of 2 in line"
    assert lines[1].startswith("  - It needs room for 2 tasks of 8 GPUs at once")
    queue = "Queue research has 12 GPUs: its guarantee is 0, its share now 16, and it has no limit."
    assert " ".join(answer.out.split()).endswith(queue)
    assert answer.status == 0


@pytest.mark.parametrize(
    ("job", "time", "sentence"),
    [
        ("first", "10m", "first runs; it needs 1 task and has 1\n  first-0 runs on node-"),
        ("too-large", "20m", "too-large can never start with the 3 tasks it needs\n  - It needs 3"),
        ("small", "1m", "small will be submitted at 10m\n"),
        ("first", "2h", "first was submitted at 0s, started at 0s and was finished at 1h\n"),
    ],
)
def test_a_job_is_explained_in_every_state(
    run: Terminal, job: str, time: str, sentence: str
) -> None:
    assert run("explain", job, "--scenario", GANG, "--at", time).out.startswith(sentence)


def test_a_job_in_a_snapshot_is_explained(run: Terminal, snapshot: str) -> None:
    out = run("explain", "lenient", "--snapshot", snapshot).out
    assert out.startswith("lenient starts now with 2 tasks\n  lenient-0 starts on node-")
    story = run("explain", "strict-too", "--snapshot", snapshot, "--json").json["gangs"][0]
    assert (story["state"], story["position"]) == ("Waits", 1)
    assert story["reasons"][0]["values"] == {"need": 2, "level": "rack", "room": 1}


def test_the_copies_of_a_job_are_explained_together(run: Terminal) -> None:
    answer = run("explain", "resident", "--scenario", RACKS, "--at", "1m", "--json")
    gangs = [story["gang"] for story in answer.json["gangs"]]
    assert gangs == ["resident-0", "resident-1", "resident-2", "resident-3"]


def test_an_unknown_job_name_suggests_similar_names(run: Terminal) -> None:
    answer = run("explain", "strct", "--scenario", RACKS)
    assert (answer.status, answer.out) == (2, "")
    assert answer.err == 'there is no job "strct"; did you mean "strict" or "strict-too"?\n'


# -- all commands


@pytest.mark.parametrize(
    "arguments",
    [
        ["nonsense"],
        ["scenario"],
        ["scenario", GANG, "--out", "x"],
        ["scenario", GANG, RACKS, "--snapshot-at", "1m"],
        ["scenario", GANG, "--snapshot-at", "soon"],
        ["explain", "j", "--scenario", GANG, "--snapshot", "x"],
        ["explain", "j", "--snapshot", "x", "--at", "1m"],
        ["explain", "j", "--scenario", GANG, "--at", "90"],
        ["simulate", "day", "--durations-known"],
        ["simulate", "day", "--no-teams"],
        ["simulate", GANG, "--min-run", "5m"],
        ["simulate", GANG, "--compare", "shortest"],
        ["bench", "placement", "--nodes", "x", "--pods", "y", "--load", "90"],
        ["bench", "placement", "--nodes", "x", "--pods", "y", "--departures", "--plot", "z"],
    ],
)
def test_invalid_options_give_a_usage_error(run: Terminal, arguments: list[str]) -> None:
    answer = run(*arguments)
    assert (answer.status, answer.out) == (2, "")
    assert "Error: " in answer.err


def test_help_names_every_command(run: Terminal) -> None:
    answer = run("--help")
    assert answer.status == 0
    assert all(f"\n  {name} " in answer.out for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_has_help(run: Terminal, name: str) -> None:
    answer = run(name, "--help")
    assert answer.status == 0
    assert answer.out.startswith(f"Usage: windlass {name} ")


@pytest.mark.parametrize("name", ["scenario", "plan", "explain"])
def test_commands_that_answer_can_print_json(run: Terminal, name: str) -> None:
    assert "--json" in run(name, "--help").out


def all_options(command: click.Command, name: str) -> Iterator[tuple[str, str]]:
    """Yield the name and the help of every option of a command and its subcommands."""
    with click.Context(command) as context:
        for parameter in command.get_params(context):
            if isinstance(parameter, click.Option):
                yield f"{name} {parameter.opts[-1]}", parameter.help or ""
        if isinstance(command, click.Group):
            for sub in command.list_commands(context):
                subcommand = command.get_command(context, sub)
                assert subcommand is not None
                yield from all_options(subcommand, f"{name} {sub}")


def test_every_option_of_every_command_has_help() -> None:
    assert [name for name, text in all_options(windlass, "windlass") if not text] == []


@pytest.mark.parametrize("name", COMMANDS)
def test_help_texts_are_sentences(name: str) -> None:
    with click.Context(windlass) as context:
        command = windlass.get_command(context, name)
    assert command is not None
    assert command.help is not None
    summary = command.help.partition("\n\n")[0]
    texts = [(name, summary), *all_options(command, name)] if name != "run" else [(name, summary)]
    assert [text for _, text in texts if not (text[0].isupper() and text.endswith("."))] == []


# -- commands of other packages


def test_a_command_of_the_product_wins_over_an_entry_point(
    run: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    entries = EntryPoints(
        EntryPoint(name, "windlass.cli.commands.crds:command", ENTRY_POINTS)
        for name in ("plan", "extra")
    )
    monkeypatch.setattr("windlass.cli.entry_points", entries.select)
    assert run("plan", "--help").out.startswith("Usage: windlass plan [OPTIONS] SNAPSHOT\n")
    assert "--out FOLDER" in run("extra", "--help").out
    with click.Context(windlass) as context:
        assert windlass.list_commands(context) == sorted([*COMMANDS, "extra"])


def test_the_commands_of_the_lab_are_listed_in_a_checkout(run: Terminal) -> None:
    project = tomllib.loads((ROOT / "lab" / "pyproject.toml").read_text())["project"]
    registered = project["entry-points"][ENTRY_POINTS]
    assert {"bench", "cluster", "conformance"} <= set(registered)
    assert set(registered).isdisjoint(COMMANDS)
    text = run("--help").out
    assert [name for name in registered if f"\n  {name} " not in text] == []


def test_an_unknown_command_gives_a_usage_error(run: Terminal) -> None:
    answer = run("nonsense")
    assert answer.status == 2
    assert "No such command 'nonsense'" in answer.err


def test_importing_the_command_line_loads_no_heavy_package() -> None:
    code = (
        "import sys, windlass.cli; print(sorted({'numpy', 'pydantic', 'yaml'} & set(sys.modules)))"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert ran.stdout == b"[]\n"


def test_a_broken_pipe_ends_a_command_quietly() -> None:
    with subprocess.Popen(
        [*PROGRAM, "scenario", "--schema"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait(timeout=60) == 141
        assert process.stderr is not None
        assert process.stderr.read() == b""


def test_an_interrupt_ends_a_command_without_a_traceback() -> None:
    # A shell starts background jobs with SIGINT ignored, and children inherit that.
    code = "import signal as s; s.signal(s.SIGINT, s.default_int_handler); " + PROGRAM[-1]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        [sys.executable, "-c", code, "plan", "-"], stdin=pipe, stdout=pipe, stderr=pipe
    ) as process:
        assert process.stdin is not None
        # More than a pipe holds, so that the write returns only once the command reads.
        process.stdin.write(b" " * 2**20)
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=60) == 130
        assert process.stderr is not None
        assert process.stderr.read().strip() == b""


def test_a_chart_is_not_written_where_a_file_is(run: Terminal, tmp_path: Path) -> None:
    answer = run("install", "--chart", write(tmp_path, "x", "taken"))
    assert answer.status == 2
    assert "the chart cannot be written there" in answer.err


def test_a_node_selector_without_a_value_is_refused(run: Terminal) -> None:
    answer = run("run", "--node-selector", "gpu")
    assert answer.status == 2
    assert '"gpu" has no value; write KEY=VALUE' in answer.err


def test_a_command_of_a_checkout_is_named_as_such(
    run: Terminal, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(**_query: str) -> EntryPoints:
        return EntryPoints()

    monkeypatch.setattr("windlass.cli.entry_points", nothing)
    answer = run("cluster")
    assert answer.status == 2
    assert "`windlass cluster` is part of a checkout" in answer.err
