"""Anything may come: the answer is a scenario, a plan, or one sentence."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checkout import ROOT
from tests.support.inputs import SCENARIO, assert_answered, plan_of, read_snapshot, small_snapshot
from windlass.sim.scenario.expectations import differences, snapshot_at
from windlass.sim.scenario.read import read_scenario
from windlass.state.snapshot import to_json

JUNK: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(min_value=-(10**30), max_value=10**30),
    st.sampled_from([0, -1, 1, 2**31, 2**63, 2**64, 0.5, -0.5, 1e308, float("nan"), float("inf")]),
    st.sampled_from(["never", "preempt", ["reclaim"], "10s"]),
    st.sampled_from(["", "rest", "1h", "512Gi", "0s", "-1h", "a", "train", "é" * 300, "\x00", "*"]),
    st.text(max_size=20),
    st.lists(st.integers(), max_size=3),
    st.dictionaries(st.text(max_size=5), st.integers(), max_size=3),
)


def places_in(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """All places of a nested value, the top left out."""
    parts = value.items() if isinstance(value, dict) else enumerate(value)
    found = []
    for key, part in parts:
        found.append((*path, key))
        if isinstance(part, dict | list):
            found += places_in(part, (*path, key))
    return found


def mutated(value: Any, data: st.DataObject) -> Any:
    """The value with one to three places replaced, removed or doubled."""
    value = deepcopy(value)
    for _ in range(data.draw(st.integers(1, 3))):
        places = places_in(value)
        if not places:
            break
        *above, last = data.draw(st.sampled_from(places))
        parent = value
        for step in above:
            parent = parent[step]
        match data.draw(st.sampled_from(["replace", "replace", "remove", "double", "swap"])):
            case "replace":
                parent[last] = data.draw(JUNK)
            case "remove":
                del parent[last]
            case "double" if isinstance(parent, list):
                parent.append(deepcopy(parent[last]))
            case _:
                parent[last] = deepcopy(value)
    return value


@pytest.fixture(name="folder", scope="module")
def folder_fixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("snapshots")


def examples() -> dict[str, Any]:
    folder = ROOT / "examples"
    return {file.stem: yaml.safe_load(file.read_text()) for file in sorted(folder.glob("*.yaml"))}


EXAMPLES = examples()


@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_a_mutated_scenario_is_accepted_or_refused(name: str, data: st.DataObject) -> None:
    text = yaml.safe_dump(mutated(EXAMPLES[name], data), allow_unicode=True)
    assert_answered(lambda: read_scenario(text.encode("utf-8", "replace"), "x.yaml"))


def told_by_key(values: list[Any]) -> dict[str, list[Any]]:
    """All that is said under each name, so that plausible things can be exchanged."""
    pool: dict[str, list[Any]] = {}
    for value in values:
        for path in places_in(value):
            part = value
            for step in path:
                part = part[step]
            if isinstance(path[-1], str) and part not in pool.setdefault(path[-1], []):
                pool[path[-1]].append(part)
    return pool


def exchanged(value: Any, pool: dict[str, list[Any]], data: st.DataObject) -> Any:
    """The value with a few things replaced by what stands under the same name elsewhere."""
    value = deepcopy(value)
    for _ in range(data.draw(st.integers(1, 4))):
        places = [path for path in places_in(value) if path[-1] in pool]
        *above, last = data.draw(st.sampled_from(places))
        parent = value
        for step in above:
            parent = parent[step]
        parent[last] = deepcopy(data.draw(st.sampled_from(pool[last])))
    return value


POOL = told_by_key(list(EXAMPLES.values()))


@given(st.sampled_from(sorted(EXAMPLES)), st.data())
def test_a_scenario_of_mixed_parts_is_played_or_refused(name: str, data: st.DataObject) -> None:
    text = yaml.safe_dump(exchanged(EXAMPLES[name], POOL, data))
    assert_answered(lambda: differences(read_scenario(text.encode(), "x.yaml")))


def snapshots_of_examples() -> list[Any]:
    """The examples at five minutes, as their JSON."""
    texts = {name: yaml.safe_dump(value).encode() for name, value in EXAMPLES.items()}
    scenarios = [read_scenario(text, name) for name, text in texts.items()]
    return [json.loads(to_json(snapshot_at(each, 300))) for each in scenarios]


SNAPSHOTS = snapshots_of_examples()
SNAPSHOT_POOL = told_by_key(SNAPSHOTS)


@given(st.sampled_from(SNAPSHOTS), st.data())
def test_a_snapshot_of_mixed_parts_is_planned_or_refused(
    folder: Path, base: Any, data: st.DataObject
) -> None:
    value = exchanged(base, SNAPSHOT_POOL, data)
    assert_answered(lambda: plan_of(read_snapshot(folder, json.dumps(value).encode())))


@given(st.data())
def test_a_damaged_scenario_is_accepted_or_refused(data: st.DataObject) -> None:
    whole = SCENARIO.encode()
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, len(whole)))
    inserted = data.draw(st.binary(max_size=8) | st.sampled_from([b"{", b"[", b"&a ", b"*a", b"!"]))
    assert_answered(lambda: read_scenario(whole[:start] + inserted + whole[end:], "x.yaml"))


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(data: bytes) -> None:
    assert_answered(lambda: read_scenario(data, "x.yaml"))


@given(st.data())
def test_a_mutated_snapshot_is_planned_or_refused(folder: Path, data: st.DataObject) -> None:
    value = mutated(json.loads(to_json(small_snapshot())), data)
    assert_answered(lambda: plan_of(read_snapshot(folder, json.dumps(value).encode())))


@given(st.data())
def test_a_damaged_snapshot_is_planned_or_refused(folder: Path, data: st.DataObject) -> None:
    whole = to_json(small_snapshot())
    start = data.draw(st.integers(0, len(whole)))
    end = data.draw(st.integers(start, min(len(whole), start + 20)))
    damaged = whole[:start] + data.draw(st.binary(max_size=4)) + whole[end:]
    assert_answered(lambda: plan_of(read_snapshot(folder, damaged)))
