"""Turns observed objects of the API server into events for the engine.

Here belongs the knowledge of what a Kubernetes object means to the engine, and the memory that this
takes: pods, owners, queues, volumes, and actions that were decided and not yet observed. Decisions
do not belong here (`daemon.decide`), nor requests (`kube.client`, `kube.writers`). The package is
pure: it does no I/O, reads no clock, and never reads the cluster. Time enters by
`Translator.advance`.

    translator          objects in, events out; the questions of the step about observed objects
    pod_table           the records of all pods and placeholders, and the events of their changes
    pod_record          the record of one pod; pods whose nodes are not known
    assumed             binds and evictions that were decided and not yet observed; backoff of gangs
    device_assignment   the devices that each pod is assumed to have
    owners              the owners of pods, the tasks that depend on them, signed marks
    gangs               the gangs, made from pods, queues, PriorityClasses and Gang objects
    gang_builder        one gang, made from the claims of its pods
    queue_assignment    the queues, the queue of a gang, PriorityClasses
    shape_cache         the shapes of pods
    volume_state        claims, volumes, storage classes and drivers
    suspended_gangs     gangs whose owners were suspended, and their placeholders
    leaders             leaders whose followers are created after them
    scope               the pods and nodes that are ours
"""

from windlass.kube.ingest.gangs import GANGS, gang_id
from windlass.kube.ingest.owners import UnsignedMark
from windlass.kube.ingest.scope import Scope
from windlass.kube.ingest.suspended_gangs import COME_WITHIN_S, SuspendedGang
from windlass.kube.ingest.translator import Translator

__all__ = [
    "COME_WITHIN_S",
    "GANGS",
    "Scope",
    "SuspendedGang",
    "Translator",
    "UnsignedMark",
    "gang_id",
]
