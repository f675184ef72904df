"""Writers: they carry decisions out on the API server.

    binder               writes the promise of a gang, binds its pods, and reads pods again
    volume_claims        has volumes provisioned for the node of a pod before it is bound
    evictor              evicts victims: promise, announcement, trial, eviction or suspension
    eviction_api         one pod and the Eviction API: the meaning of each answer
    disruption_budgets   pure: whether budgets allow that some pods go at once
    force_delete         deletes pods that do not end, and shortens their grace
    node_check           creates the check Jobs of nodes from a template
    suspend              suspends and resumes the owners of gangs
    checkpoint           writes checkpoint requests on pods, and notes checkpoints that were saved
    checkpoint_http      sends the same requests to the endpoints of pods
    placement_promises   pure: the text of a promise, and the hold that it stands for
    conditions           pure: the texts of conditions and Events, and the time to write them
    status_writer        writes conditions, Events and statuses
    signing              signs the marks of suspended owners; keeps the key in a Secret

Decisions do not belong here: each writer gets a complete order, sets it going without waiting, and
reports failures and answers through a callback. No writer decides again by itself; it only retries
a request that cannot take effect twice. The writers share one `WriteQueue`. This package does I/O.
"""

from windlass.kube.writers.binder import Binder
from windlass.kube.writers.checkpoint import CheckpointRequester
from windlass.kube.writers.conditions import (
    SCHEDULED,
    ConditionReason,
    ConditionWriter,
    EventMessage,
    GangMessages,
    WaitingPod,
    displaced_event,
    lacks_nodes,
    message_of,
    withdrawn_event,
)
from windlass.kube.writers.disruption_budgets import allow
from windlass.kube.writers.evictor import EvictionLimits, Evictor
from windlass.kube.writers.force_delete import ForceDeleter
from windlass.kube.writers.node_check import NodeCheckStarter
from windlass.kube.writers.placement_promises import Promise, hold_of, promise_of, read, text_of
from windlass.kube.writers.signing import (
    PUBLIC_KEY,
    Signing,
    UncheckedSignatures,
    UnreadableKey,
    private_key,
)
from windlass.kube.writers.status_writer import StatusWriter
from windlass.kube.writers.suspend import OwnerWriter

__all__ = [
    "PUBLIC_KEY",
    "SCHEDULED",
    "Binder",
    "CheckpointRequester",
    "ConditionReason",
    "ConditionWriter",
    "EventMessage",
    "EvictionLimits",
    "Evictor",
    "ForceDeleter",
    "GangMessages",
    "NodeCheckStarter",
    "OwnerWriter",
    "Promise",
    "Signing",
    "StatusWriter",
    "UncheckedSignatures",
    "UnreadableKey",
    "WaitingPod",
    "allow",
    "displaced_event",
    "hold_of",
    "lacks_nodes",
    "message_of",
    "private_key",
    "promise_of",
    "read",
    "text_of",
    "withdrawn_event",
]
