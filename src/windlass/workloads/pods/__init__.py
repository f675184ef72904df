"""One pod, converted to a task of the model.

Belongs here: functions of one pod (and of the storage objects that it uses). Does not belong here:
its gang, which follows from its owners (`kinds`). Pure: no I/O.

    task           the task of a pod: identity, shape, state, end
    requests       the resources that a pod requests, added up as kube-scheduler does
    constraints    selectors, affinity, tolerations and spread constraints
    volumes        the constraints that follow from the volumes of a pod
    checkpointing  the annotations about checkpoints, and the answers to checkpoint requests
"""

from windlass.workloads.pods.checkpointing import (
    GRACE_S,
    MUTE,
    CheckpointSettings,
    answers,
    checkpoint_settings_of,
    complaints,
    endpoint_of,
    grace_of,
)
from windlass.workloads.pods.constraints import NODE_NAME, selector_of
from windlass.workloads.pods.requests import GPU, RESIZE, reader_of, request_of
from windlass.workloads.pods.task import (
    chooses_namespaces,
    end_of,
    refusal_of,
    shape_of,
    state_of,
    task_id,
    task_of,
)
from windlass.workloads.pods.volumes import (
    ONE_POD,
    SELECTED,
    VolumeNeeds,
    claims_of,
    has_claims,
    is_bound,
    needs_of,
)

__all__ = [
    "GPU",
    "GRACE_S",
    "MUTE",
    "NODE_NAME",
    "ONE_POD",
    "RESIZE",
    "SELECTED",
    "CheckpointSettings",
    "VolumeNeeds",
    "answers",
    "checkpoint_settings_of",
    "chooses_namespaces",
    "claims_of",
    "complaints",
    "end_of",
    "endpoint_of",
    "grace_of",
    "has_claims",
    "is_bound",
    "needs_of",
    "reader_of",
    "refusal_of",
    "request_of",
    "selector_of",
    "shape_of",
    "state_of",
    "task_id",
    "task_of",
]
