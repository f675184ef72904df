"""A kind that nobody has heard of, by a row in the configuration file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tests.live.support.definitions import installed
from tests.live.support.fake_controller import Troupe, open_troupe
from tests.live.support.scene import Scene, scene
from windlass.crds.definitions import API_VERSION, QUEUE
from windlass_lab.control_plane.plane import Plane

VERSION = "ml.example.com/v1"
ROWS = """
kinds:
  - kind: TrainingRun
    group: ml.example.com
    version: v1
    plural: trainingruns
    size: [spec.workers.*.replicas]
    alone: {role: launcher}
"""


@pytest.fixture(scope="module", autouse=True)
def kinds(plane: Plane) -> Iterator[None]:
    with installed(plane, {"TrainingRun": VERSION}):
        yield


@pytest.fixture
async def made(plane: Plane, tmp_path: Path) -> AsyncIterator[Scene]:
    async with scene(plane.api_access(), tmp_path, nodes=1) as made:
        yield made
        made.check()


@pytest.fixture
async def troupe(made: Scene, tmp_path: Path) -> AsyncIterator[Troupe]:
    """A namespace with a queue, and a daemon that has read the row."""
    found = await open_troupe(made, "runs")
    spec = {"namespaces": [found.namespace], "guarantee": {"gpu": 8}}
    body = {"apiVersion": API_VERSION, "kind": "Queue", "spec": spec}
    await made.api.post(QUEUE.path(), body | {"metadata": {"name": made.key}})
    file = tmp_path / "windlass.yaml"
    file.write_text(ROWS)
    await made.leading(namespaces=None, scheduler_names=made.key, config=file)
    yield replace(found, versions={**found.versions, "TrainingRun": VERSION})
    await made.api.delete(QUEUE.path(made.key))
    await made.api.delete(f"/api/v1/namespaces/{found.namespace}")


async def test_pods_of_a_kind_of_ones_own_start_together(troupe: Troupe) -> None:
    workers = [{"replicas": 2}, {"replicas": 1}]
    run = await troupe.make("TrainingRun", "x", {"workers": workers})
    await troupe.pod("x-0", run)
    await troupe.pod("x-1", run)
    await troupe.wait_told(2, " of the 3 tasks it starts with exist")
    await troupe.pod("x-2", run)
    assert len(await troupe.wait_running(3)) == 3


async def test_its_launcher_waits_for_nobody(troupe: Troupe) -> None:
    run = await troupe.make("TrainingRun", "x", {"workers": [{"replicas": 2}]})
    await troupe.pod("x-launcher", run, role="launcher")
    assert len(await troupe.wait_running(1)) == 1


async def test_a_run_that_grows_before_it_has_started_starts_larger(troupe: Troupe) -> None:
    run = await troupe.make("TrainingRun", "x", {"workers": [{"replicas": 2}]})
    await troupe.pod("x-0", run)
    await troupe.wait_told(1, "1 of the 2 tasks it starts with exist")
    await troupe.change("TrainingRun", "x", {"workers": [{"replicas": 3}]})
    await troupe.pod("x-1", run)
    await troupe.pod("x-2", run)
    assert len(await troupe.wait_running(3)) == 3
    await troupe.wait_event("3 pods start on ")
