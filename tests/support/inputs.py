"""A scenario and a snapshot that are sound, to be spoilt, and what is expected of an answer."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import given as make
from windlass.cli.files import read_snapshot_file
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.model.errors import InputError
from windlass.model.gpus import Slice
from windlass.model.nodes import Topology
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

SCENARIO = """\
name: base
topologies:
  - {name: network, levels: [block, rack]}
nodes:
  - {name: a, cpu: 64, memory: 512Gi, gpus: {model: A100-80GB, count: 8}}
queues:
  - {name: company, guarantee: {gpu: 4}}
  - {name: b, parent: company, guarantee: {gpu: 4}}
jobs:
  - {name: train, queue: b, tasks: 2, gpus: 1, runs: 1h}
expect:
  - {job: train, state: finished}
"""


def small_snapshot() -> Snapshot:
    return make.snapshot(
        make.node("n", 2),
        make.node("m", 1, mig=True),
        Topology("network", ("rack",)),
        make.queue("team", gpus=1),
        make.job("runs", 1, make.ask(1)).runs(0, on="n", devices=[0]),
        make.job("cut", 1, make.ask(1, profile="1g.10gb")).runs(
            0, on="m", devices=[Slice(0, 143, "1g.10gb", 2)]
        ),
        make.job("waits", 2, make.ask(1)),
    )


def read_snapshot(folder: Path, data: bytes) -> Snapshot:
    file = folder / "snapshot.json"
    file.write_bytes(data)
    return read_snapshot_file(str(file))


def plan_of(snapshot: Snapshot) -> Plan:
    return plan(Cluster.of(snapshot))


def assert_answered(read_it: Callable[[], Any]) -> None:
    """Accepted, or refused in one sentence."""
    try:
        read_it()
    except InputError as error:
        assert_is_one_sentence(str(error))


def assert_is_one_sentence(text: str) -> None:
    assert text.isprintable(), text
    assert "Traceback" not in text
    assert len(text) < 700, text
