"""Create check Jobs, which decide whether a node returns to service.

The template is a CronJob, usually a suspended one, so that it can be read, changed and tried with
kubectl (`kubectl create job --from=cronjob/...`). The Job of a node is the Job of the template with
a pod that is bound to that node directly: no scheduler places it, because the node takes no tasks.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import msgspec

from windlass.controllers.node_checks import NodeCheck
from windlass.kube.client import Api, ApiError, Conflict, Urgency, WriteQueue
from windlass.kube.writers.binder import Binder
from windlass.kube.writes import CheckRefused
from windlass.workloads.objects import CHECKED_NODE

DEADLINE_S = 1800
"""The longest time for a check whose template sets no activeDeadlineSeconds."""
KEPT_S = 24 * 3600
"""The time for which the Job of an ended check is kept, unless its template says otherwise."""


class NodeCheckStarter:
    """Creates the check Jobs of nodes; failures are reported."""

    def __init__(
        self,
        api: Api,
        workers: WriteQueue,
        binder: Binder,
        template: str,
        report: Callable[[CheckRefused], None],
    ) -> None:
        self._api, self._workers, self._binder, self._report = api, workers, binder, report
        self._namespace, _, self._name = template.partition("/")

    def start(self, check: NodeCheck) -> None:
        """Create the check Job of a node, unless it exists."""
        jobs = f"/apis/batch/v1/namespaces/{self._namespace}/jobs"
        template = f"/apis/batch/v1/namespaces/{self._namespace}/cronjobs/{self._name}"

        async def write() -> None:
            found: dict[str, Any] = msgspec.json.decode(await self._api.get(template))
            with suppress(Conflict):  # an earlier attempt succeeded, and its answer was lost
                await self._api.post(jobs, check_job(found["spec"]["jobTemplate"], check))

        def give_up(error: ApiError) -> None:
            why = f"CronJob {self._namespace}/{self._name}: {error.message}"
            self._report(CheckRefused(check, why))

        self._workers.put(Urgency.STATUS, self._binder.repeated(Urgency.STATUS, write, give_up))


def check_job(template: dict[str, Any], check: NodeCheck) -> dict[str, Any]:
    """Return the Job that checks a node, made of the `jobTemplate` of a CronJob."""
    meta: dict[str, Any] = template.get("metadata") or {}
    spec: dict[str, Any] = template["spec"]
    pod = spec["template"]
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {
            "name": check.job,
            "labels": meta.get("labels") or {},
            "annotations": (meta.get("annotations") or {}) | {CHECKED_NODE: check.node},
        },
        "spec": {"activeDeadlineSeconds": DEADLINE_S, "ttlSecondsAfterFinished": KEPT_S}
        | spec
        | {
            "suspend": False,
            "template": pod
            | {
                "spec": pod["spec"]
                | {"nodeName": check.node, "tolerations": [{"operator": "Exists"}]}
            },
        },
    }
