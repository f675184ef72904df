"""The documents of the API as types, and their description.

Only types belong here, and no I/O. Their fields are the API: a field is never renamed, and a new
one is seen by viewers of the whole cluster at once.

    documents      the documents about the present
    cycles         the documents about cycles
    map_columns    the columns of the map
    openapi        the OpenAPI description, made from the types
"""

from windlass.web.schema.cycles import (
    ChangedGpu,
    ChangedNode,
    CycleDocument,
    Cycles,
    DecisionsDocument,
    EvictedRow,
    HeldRow,
    PlacedRow,
    RecordedCycles,
    RecordedDocument,
    ShareRow,
    WhyCount,
)
from windlass.web.schema.documents import (
    ClusterDocument,
    Eta,
    FinishedJob,
    Flow,
    JobDocument,
    JobsDocument,
    Past,
    PlaceRow,
    Problem,
    QueueRow,
    QueuesDocument,
    ReasonRow,
    RoomDocument,
    RunningJob,
    Stamp,
    StartRow,
    WaitingJob,
)
from windlass.web.schema.map_columns import (
    AllocationColumns,
    GangColumns,
    HoldColumns,
    NodeColumns,
    RackColumns,
    TaskColumns,
)
from windlass.web.schema.openapi import description

__all__ = [
    "AllocationColumns",
    "ChangedGpu",
    "ChangedNode",
    "ClusterDocument",
    "CycleDocument",
    "Cycles",
    "DecisionsDocument",
    "Eta",
    "EvictedRow",
    "FinishedJob",
    "Flow",
    "GangColumns",
    "HeldRow",
    "HoldColumns",
    "JobDocument",
    "JobsDocument",
    "NodeColumns",
    "Past",
    "PlaceRow",
    "PlacedRow",
    "Problem",
    "QueueRow",
    "QueuesDocument",
    "RackColumns",
    "ReasonRow",
    "RecordedCycles",
    "RecordedDocument",
    "RoomDocument",
    "RunningJob",
    "ShareRow",
    "Stamp",
    "StartRow",
    "TaskColumns",
    "WaitingJob",
    "WhyCount",
    "description",
]
