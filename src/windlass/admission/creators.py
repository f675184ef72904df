"""The kinds of owners whose creator is passed on to the objects that they create.

If Ann creates a Job, a controller creates its pods; their creator is Ann. The webhook
configuration of the chart covers these kinds, and its role may read them.
"""

from __future__ import annotations

from windlass.workloads.objects import OwnerRef

CREATOR_KINDS: dict[tuple[str, str], str] = {
    ("Pod", ""): "pods",
    ("Deployment", "apps"): "deployments",
    ("ReplicaSet", "apps"): "replicasets",
    ("StatefulSet", "apps"): "statefulsets",
    ("CronJob", "batch"): "cronjobs",
    ("Job", "batch"): "jobs",
    ("JobSet", "jobset.x-k8s.io"): "jobsets",
    ("JAXJob", "kubeflow.org"): "jaxjobs",
    ("MPIJob", "kubeflow.org"): "mpijobs",
    ("PyTorchJob", "kubeflow.org"): "pytorchjobs",
    ("TFJob", "kubeflow.org"): "tfjobs",
    ("XGBoostJob", "kubeflow.org"): "xgboostjobs",
    ("LeaderWorkerSet", "leaderworkerset.x-k8s.io"): "leaderworkersets",
    ("RayCluster", "ray.io"): "rayclusters",
    ("RayJob", "ray.io"): "rayjobs",
    ("RayService", "ray.io"): "rayservices",
    ("TrainJob", "trainer.kubeflow.org"): "trainjobs",
}
"""The plural resource name by kind and API group."""


def path_of(ref: OwnerRef, namespace: str) -> str | None:
    """Return the API path of an owner; None if its kind passes no creator on."""
    group = ref.api_version.rpartition("/")[0]
    plural = CREATOR_KINDS.get((ref.kind, group))
    if plural is None:
        return None
    root = f"/apis/{ref.api_version}" if group else f"/api/{ref.api_version}"
    return f"{root}/namespaces/{namespace}/{plural}/{ref.name}"
