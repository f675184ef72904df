"""Which kinds carry the name of their creator on to what they make.

A Job made by Ann makes pods by way of a controller: those are Ann's. The chart's webhook is asked
about these kinds, and may read them.
"""

from __future__ import annotations

from windlass.workloads.objects.wire import OwnerRef

MAKERS: dict[tuple[str, str], str] = {
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
"""Per kind and API group, the name of the resource."""


def path_of(ref: OwnerRef, namespace: str) -> str | None:
    """Where an owner is found; None if its kind carries no creator."""
    group = ref.api_version.rpartition("/")[0]
    plural = MAKERS.get((ref.kind, group))
    if plural is None:
        return None
    root = f"/apis/{ref.api_version}" if group else f"/api/{ref.api_version}"
    return f"{root}/namespaces/{namespace}/{plural}/{ref.name}"
