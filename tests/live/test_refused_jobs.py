"""What `windlass explain --before` refuses is what a real API server refuses, and no more."""

from __future__ import annotations

import pytest

from tests.support.refused_jobs import REFUSED, TAKEN
from windlass.kube.client.client import connect
from windlass.kube.client.errors import Invalid
from windlass.workloads.manifests.validate import problems
from windlass_lab.control_plane.plane import Plane

JOBS = "/apis/batch/v1/namespaces/default/jobs"
ONLY_TRY = {"dryRun": "All"}


async def test_a_job_without_problems_is_one_that_the_api_server_takes(plane: Plane) -> None:
    async with connect(plane.api_access()) as api:
        for manifest in TAKEN.values():
            assert not list(problems(manifest))
            await api.post(JOBS, manifest, params=ONLY_TRY)


async def test_a_job_with_problems_is_one_that_the_api_server_refuses(plane: Plane) -> None:
    async with connect(plane.api_access()) as api:
        for why, (manifest, _) in REFUSED.items():
            assert list(problems(manifest)), why
            with pytest.raises(Invalid):
                await api.post(JOBS, manifest, params=ONLY_TRY)
