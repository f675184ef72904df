"""The owners of pods, and the gangs that their pods form.

Belongs here: a table with one row per kind of owner, and pure functions of the owner's spec and
status that the rows consist of. Does not belong here: the lookup of owners (`kube/ingest`). Pure:
no I/O.

    table              the rows, and the membership of a pod in its gang
    gang_sizes         the number of pods of an owner that start together
    eviction_survival  the fate of an evicted pod, and the failures that its owner tolerates
    suspension         owners that are suspended to stop a gang whole, and our mark on them
    leaders            groups whose followers are made after their leader has a node
    declared           rows that users declare for kinds of their own
"""

from windlass.workloads.kinds import gang_sizes
from windlass.workloads.kinds.declared import DeclaredKind, row_of
from windlass.workloads.kinds.eviction_survival import UNLIMITED, Survives
from windlass.workloads.kinds.gang_sizes import (
    JOBSET,
    LWS,
    pods_at_once,
    resumed_first,
    succeeded_jobs,
    workers_of_group,
)
from windlass.workloads.kinds.leaders import followers_of, group_of, is_leader
from windlass.workloads.kinds.suspension import (
    OwnerState,
    SuspensionMark,
    field_patch,
    has_ended,
    is_suspended,
    mark_of,
    mark_text,
    owner_state,
    with_resumption,
)
from windlass.workloads.kinds.table import (
    KINDS,
    MOST_STEPS,
    RAY_PRIORITY,
    Key,
    Kinds,
    Membership,
    key_of,
    kind_of,
    membership,
    owner_chain,
    suspendable_owner,
)

__all__ = [
    "JOBSET",
    "KINDS",
    "LWS",
    "MOST_STEPS",
    "RAY_PRIORITY",
    "UNLIMITED",
    "DeclaredKind",
    "Key",
    "Kinds",
    "Membership",
    "OwnerState",
    "Survives",
    "SuspensionMark",
    "field_patch",
    "followers_of",
    "gang_sizes",
    "group_of",
    "has_ended",
    "is_leader",
    "is_suspended",
    "key_of",
    "kind_of",
    "mark_of",
    "mark_text",
    "membership",
    "owner_chain",
    "owner_state",
    "pods_at_once",
    "resumed_first",
    "row_of",
    "succeeded_jobs",
    "suspendable_owner",
    "with_resumption",
    "workers_of_group",
]
