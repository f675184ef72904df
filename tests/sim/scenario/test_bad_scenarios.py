"""A scenario that cannot be used is refused in one sentence, with its line, and nothing happens."""

from __future__ import annotations

import pytest

from tests.support.inputs import SCENARIO, assert_is_one_sentence
from windlass.model.errors import InputError, UnknownName
from windlass.sim.scenario.read import Scenario, read_scenario
from windlass.sim.scenario.yaml_lines import MOST_BYTES


def read(text: str) -> Scenario:
    return read_scenario(text.encode(), "x.yaml")


def assert_refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read(text)
    assert_is_one_sentence(str(caught.value))
    return caught.value


def test_the_base_is_accepted() -> None:
    assert read(SCENARIO).name == "base"


@pytest.mark.parametrize(
    ("old", "new", "line", "sentence"),
    [
        ("guarantee: {gpu: 4}}\njobs", "guarantee: {gpu: 8}}\njobs", 8, "above its parent's 4"),
        ("parent: company, ", "parent: company, limit: {gpu: 2}, ", 8, "above its limit of 2 GPUs"),
        ("parent: company, ", "parent: company, lend: {gpu: 5}, ", 8, "lends 5 GPUs but"),
        ("parent: company", "parent: compny", 8, 'did you mean "company"?'),
        ("{name: company, ", "{name: company, parent: b, ", 7, "it is above itself"),
        ("{name: b, ", "{name: company, ", 8, 'queue "company" occurs twice'),
        ("guarantee: {gpu: 4}}\n  - {name: b", "guarantee: {gpus: 4}}\n  - {name: b", 7, 'of gpu,'),
        ("guarantee: {gpu: 4}}\n  - {name: b", "weight: two}\n  - {name: b", 7, "a whole number"),
        ("guarantee: {gpu: 4}}\n  - {name: b", "weight: -1}\n  - {name: b", 7, "at least 0"),
        ("queue: b", "queue: c", 10, 'queue "c" does not exist'),
        ("queue: b", "queue: company", 10, "has queues below it"),
        ("tasks: 2", "tasks: 2, minimum: 3", 10, "minimum 3 is above its 2 tasks"),
        ("tasks: 2", "tasks: 0", 10, "at least 1"),
        ("tasks: 2", "tasks: 2.5", 10, "a whole number"),
        ("gpus: 1,", "gpus: -1,", 10, "below zero"),
        ("gpus: 1,", "gpus: .nan,", 10, "not a finite number"),
        ("gpus: 1,", "gpus: 1e999,", 10, "not a finite number"),
        ("gpus: 1,", "gpus: 1.5,", 10, "neither whole nor a part of one"),
        ("gpus: 1,", "gpus: 0.0001,", 10, "too fine"),
        ("gpus: 1,", "gpus: 65,", 10, "from 1 to 64"),
        ("gpus: 1,", "gpus: 1, gpu_memory: 10Gi,", 10, "gpus and gpu_memory at once"),
        ("gpus: 1,", "gpu_memory: 10G,", 10, "with its unit, like 512Gi"),
        ("gpus: 1,", "mig: {profile: 3g.20gb},", 10, "A100-80GB offers 1g.10gb"),
        ("gpus: 1,", "gpus: 1, domain: {level: row},", 10, "its levels are block, rack"),
        ("gpus: 1,", "gpus: 1, domain: {topology: net, level: rack},", 10, "there is network"),
        ("gpus: 1,", "gpus: 1, tolerate: [],", 10, 'did you mean "tolerations"?'),
        ("gpus: 1,", "gpus: 1, preferences: [{weight: 101, term: []}],", 10, "at most 100"),
        ("gpus: 1,", "gpus: 1, affinity: [[{key: a, operator: Gt, values: [x]}]],", 10, "whole"),
        ("runs: 1h", "runs: 3600", 10, "a time with its unit"),
        ("runs: 1h", "runs: 0", 10, "at least 1"),
        ("runs: 1h", "deleted_at: 1h, at: 2h", 10, "deleted before it is submitted"),
        ("runs: 1h", "runs: 1h, displaces_after: -5s", 10, "a time with its unit"),
        ("runs: 1h", "runs: 1h, displaces_after: .nan", 10, "not a finite number"),
        ("runs: 1h", "runs: 1h, displaces_after: always", 10, "always is not understood"),
        ("runs: 1h", "runs: 1h, stale_after: -1", 10, "a time with its unit"),
        ("runs: 1h", "runs: 1h, saves_every: 0", 10, "at least 1"),
        ("runs: 1h", "runs: 1h, saves_every: never", 10, "never is not understood"),
        ("runs: 1h", "runs: 1h, terminates: rest", 10, "rest is not understood"),
        ("parent: company, ", "parent: company, min_run: 30, ", 8, "a time with its unit"),
        ("parent: company, ", "parent: company, min_run: never, ", 8, "never is not understood"),
        ("name: base\n", "name: base\nsettings: {displacing: [steal]}\n", 2, "'consolidate'"),
        ("name: base\n", "name: base\nsettings: {displacing: reclaim}\n", 2, "expected a list"),
        ("name: base\n", "name: base\nsettings: {displacing: [preempt, preempt]}\n", 2, "twice"),
        ("name: base\n", "name: base\nsettings: {search_steps: 0}\n", 2, "at least 1"),
        ("name: base\n", "name: base\nsettings: {search_steps: .nan}\n", 2, "finite"),
        ("name: base\n", "name: base\nsettings: {dwell: -1s}\n", 2, "a time with its unit"),
        ("name: base\n", "name: base\nsettings: {stuck_for: 1m}\n", 2, '"stuck_after"?'),
        ("state: finished", "evicted: -1", 12, "at least 0"),
        ("state: finished", "moved: .inf", 12, "not a finite number"),
        ("state: finished", "displaced_by: rain", 12, 'job "rain", which does not exist'),
        ("cpu: 64", "cpu: 64, cpu: 32", 5, '"cpu" is given twice'),
        ("cpu: 64", "cpu: many", 5, "a number of CPUs"),
        ("memory: 512Gi", "memory: 512", 5, "with its unit"),
        ("A100-80GB", "A100-81GB", 5, 'did you mean "A100-80GB"?'),
        ("A100-80GB", "T4-16GB, mig: true", 5, "which T4-16GB does not offer"),
        ("count: 8", "count: 8, memory: 0", 5, "from 1 to"),
        ("count: 8", "count: 8, unhealthy: [8]", 5, "counted from 0"),
        ("{name: a, ", "{name: a, count: 30000, ", 5, "at most 20000"),
        ("{name: a, ", "{name: '', ", 5, "give it a name"),
        ("levels: [block, rack]", "levels: []", 3, "at least one label"),
        ("state: finished", "state: done", 12, "expected 'absent', 'waiting'"),
        ("job: train, ", "job: rain, ", 12, 'job "rain", which does not exist'),
        ("{job: train, ", "{", 12, "names no job, queue or node"),
        ("expect:", "events:\n  - {at: 1h}\nexpect:", 12, "exactly one of node_gone"),
        ("expect:", "events:\n  - {at: 1h, node_gone: c}\nexpect:", 12, 'node "c" does not exist'),
        ("expect:", "events:\n  - {at: 1h, node_back: a}\nexpect:", 12, "is still there"),
        ("expect:", "events:\n  - {at: 1h, delete: trane}\nexpect:", 12, 'did you mean "train"?'),
        ("name: base\n", "", 1, "name: it is missing"),
        ("name: base\n", "name: base\nname: two\n", 2, "given twice, first in line 1"),
        ("name: base\n", "name: [base\n", 2, "this is not YAML"),
        ("name: base\n", "name: !!python/name:os.system base\n", 1, "a tag"),
        ("name: base\n", "name: base\nabout: *nothing\n", 2, "stands for nothing"),
        ("expect:", "---\nexpect:", 11, "a second document"),
    ],
)  # fmt: skip
def test_a_mistake_is_named_with_its_line(old: str, new: str, line: int, sentence: str) -> None:
    assert SCENARIO.count(old) == 1
    error = assert_refused(SCENARIO.replace(old, new))
    assert sentence in str(error)
    assert error.line == line
    assert str(error).startswith(f"x.yaml:{line}: ")


def test_the_message_reads_as_promised() -> None:
    wrong = SCENARIO.replace("guarantee: {gpu: 4}}\njobs", "guarantee: {gpu: 8}}\njobs")
    assert str(assert_refused(wrong)) == (
        'x.yaml:8: queue "b": guarantee 8 GPUs is above its parent\'s 4 GPUs; '
        "lower it or raise the parent's"
    )


def test_the_first_of_several_mistakes_is_told_and_the_others_are_counted() -> None:
    error = assert_refused(SCENARIO.replace("cpu: 64", "cpu: x").replace("tasks: 2", "tasks: 0"))
    assert error.line == 5
    assert error.more == 1
    assert str(error).endswith("(and 1 more)")


def test_copies_of_a_mistake_count_once() -> None:
    error = assert_refused(SCENARIO.replace("queue: b", "queue: c, count: 50"))
    assert error.more == 0


def test_guarantees_of_all_children_are_compared_with_their_parents() -> None:
    third = "  - {name: c, parent: company, guarantee: {gpu: 1}}\njobs"
    error = assert_refused(SCENARIO.replace("jobs", third))
    assert error.line == 9
    assert 'the queues below "company" (b, c) are guaranteed 5 GPUs' in str(error)


def test_a_file_that_is_too_large_is_refused_in_one_sentence() -> None:
    with pytest.raises(InputError, match="4 MiB a scenario may have") as caught:
        read_scenario(b"#" * (MOST_BYTES + 1), "x.yaml")
    assert_is_one_sentence(str(caught.value))


def test_anchors_that_multiply_each_other_do_not_explode() -> None:
    lines = ["a0: &a0 [1, 1, 1, 1, 1, 1, 1, 1, 1, 1]"]
    for level in range(1, 20):
        lines.append(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]")
    assert "aliases counted in full" in str(assert_refused("\n".join(lines)))


def test_an_anchor_may_save_typing() -> None:
    text = SCENARIO.replace(
        "gpus: {model: A100-80GB, count: 8}}", "gpus: &g {model: T4-16GB}}"
    ).replace("queues:", "  - {name: c, gpus: *g}\nqueues:")
    assert [len(node.gpus) for node in read(text).workload.nodes] == [1, 1]


@pytest.mark.parametrize("text", ["[" * 100_000, "a: " * 1000, "- " * 100_000, "{a: " * 5000])
def test_deep_nesting_is_refused(text: str) -> None:
    assert_refused(text)


@pytest.mark.parametrize("data", [b"", b"\xff\xfe", b"\x00", b"a: \x07", b"- 1\n- \xc3(", b"5"])
def test_bytes_that_are_no_scenario_are_refused(data: bytes) -> None:
    with pytest.raises(InputError) as caught:
        read_scenario(data, "x.yaml")
    assert_is_one_sentence(str(caught.value))


def test_too_many_tasks_are_refused_before_they_are_made() -> None:
    error = assert_refused(SCENARIO.replace("tasks: 2", "tasks: 1000000, count: 100000"))
    assert "100,000,000,000 tasks" in str(error)


@pytest.mark.parametrize("name", ['"a\\nb"', '"\\e[31mred"', '"\\u202e"'])
def test_what_cannot_be_printed_is_not_printed(name: str) -> None:
    assert_refused(SCENARIO.replace("name: b,", f"name: {name},"))
    assert_refused(SCENARIO.replace("A100-80GB", name))
    assert_refused(SCENARIO.replace("gpus: 1", f"gpus: {name}"))
    assert str(UnknownName("job", "\x1b[31m", [])).isprintable()


def test_a_name_that_is_not_there_offers_close_ones() -> None:
    assert str(UnknownName("job", "trian", ["train", "test"])) == (
        'there is no job "trian"; did you mean "train"?'
    )
    assert "check the name" in str(UnknownName("job", "zzz", ["train"]))
