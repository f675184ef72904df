"""`windlass explain --before`: a job of a file, added to a copy of a cluster as if submitted.

A manifest is expanded into the pods that its controllers would create, and these are read like all
other pods. A job in the format of scenario files is taken as it is. Either way the engine plans as
if the job had been submitted now, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from windlass.cli.explain.context import ExplainContext, observed_context, with_events
from windlass.cli.explain.manifest_files import (
    ManifestFile,
    expand_manifests,
    kinds_without_pods,
)
from windlass.cli.format import sentence
from windlass.model.errors import InputError
from windlass.model.events import Event, GangSeen, TaskSeen

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.daemon.decide import StepInput
    from windlass.state.cluster import Cluster
    from windlass.workloads.manifests import ClusterDefaults, ExpandedManifests


def submit_to_context(
    context: ExplainContext, manifests: ManifestFile, namespace: str = "default"
) -> tuple[ExplainContext, list[str]]:
    """Return the context with the job submitted to it, and the names of its gangs."""
    from windlass.workloads.kinds import KINDS

    if manifests.is_kubernetes:
        events = _events_of_manifests(manifests, context.cluster, namespace)
        context = _with_notice(context, sentence(kinds_without_pods(manifests, KINDS)))
    else:
        events = _events_of_scenario_jobs(manifests, context.cluster)
    gangs = [str(event.gang.id) for event in events if isinstance(event, GangSeen)]
    return with_events(context, events), list(dict.fromkeys(gangs))


def submit_to_cluster(
    config: Config, manifests: ManifestFile, namespace: str
) -> tuple[ExplainContext, list[str]]:
    """Read a live cluster as if the job had been submitted to it; return the names of its gangs.

    The job is read with the settings of the leader, like the pods of the cluster.
    """
    import asyncio

    from windlass.daemon.loop import read_cluster
    from windlass.workloads.pods import task_id

    if not manifests.is_kubernetes:
        return submit_to_context(observed_context(asyncio.run(read_cluster(config))), manifests)
    expanded: list[tuple[ExpandedManifests, str]] = []

    def add_job(inputs: Sequence[StepInput], config: Config, now: int) -> list[StepInput]:
        defaults = _cluster_defaults(config, namespace, now, inputs)
        objects = expand_manifests(manifests, defaults)
        expanded.append((objects, " ".join(_remarks(manifests, defaults, objects, inputs))))
        return _as_inputs(objects)

    context = observed_context(asyncio.run(read_cluster(config, more=add_job)))
    objects, remarks = expanded[0]
    tasks = (context.cluster.tasks.get(task_id(pod)) for pod in objects.pods)
    gangs = (str(task.gang) for task in tasks if task is not None)
    return _with_notice(context, remarks), list(dict.fromkeys(gangs))


def _remarks(
    manifests: ManifestFile,
    defaults: ClusterDefaults,
    objects: ExpandedManifests,
    inputs: Sequence[StepInput],
) -> Iterator[str]:
    """Yield sentences about documents that are left out, and objects that exist already."""
    from windlass.kube.refs import ObjectObserved
    from windlass.model.validation import join_names
    from windlass.workloads.objects import Owner, Pod

    if others := kinds_without_pods(manifests, defaults.kinds):
        yield sentence(others)
    existing = {
        (item.kind, item.object.metadata.namespace, item.object.metadata.name)
        for item in inputs
        if isinstance(item, ObjectObserved) and isinstance(item.object, Owner | Pod)
    }
    new = (item for item in _as_inputs(objects) if isinstance(item, ObjectObserved))
    names = [
        f"{meta.namespace}/{meta.name}"
        for kind, meta in ((item.kind, item.object.metadata) for item in new)
        if (kind, meta.namespace, meta.name) in existing
    ]
    if names:
        yield f"{join_names(names)} exists already; the answer is for another job beside it."


def _with_notice(context: ExplainContext, notice: str) -> ExplainContext:
    return replace(context, notice=" ".join(filter(None, (context.notice, notice))))


def _as_inputs(objects: ExpandedManifests) -> list[StepInput]:
    """Return the expanded objects as the watches of the scheduler would report them."""
    from windlass.kube.refs import ObjectObserved

    owners = [ObjectObserved(str(key), owner) for key, owner in objects.owners]
    return [*owners, *(ObjectObserved("pods", pod) for pod in objects.pods)]


def _cluster_defaults(
    config: Config, namespace: str, now: int, inputs: Iterable[StepInput] | None = None
) -> ClusterDefaults:
    """Return the values that the API server would fill in; priorities only if inputs are given."""
    from windlass.daemon.serving import scope_of
    from windlass.kube.refs import ObjectObserved
    from windlass.model.units import format_timestamp
    from windlass.workloads.manifests import ClusterDefaults
    from windlass.workloads.objects import PriorityClass

    priorities: dict[str, int] | None = None
    if inputs is not None:
        objects = (item.object for item in inputs if isinstance(item, ObjectObserved))
        classes = (found for found in objects if isinstance(found, PriorityClass))
        priorities = {found.metadata.name: found.value for found in classes}
    scope = scope_of(config)
    return ClusterDefaults(
        namespace, sorted(scope.schedulers)[0], format_timestamp(now), priorities, scope.kinds
    )


def _events_of_manifests(manifests: ManifestFile, cluster: Cluster, namespace: str) -> list[Event]:
    """Return the events of the expanded pods in the cluster of a snapshot or scenario.

    Such a cluster has no namespaces, so every queue is open to the pods.
    """
    from windlass.config import Config
    from windlass.crds.read import OwnedQueue, QueueUsers
    from windlass.daemon.serving import scope_of
    from windlass.kube.ingest import Translator

    objects = expand_manifests(manifests, _cluster_defaults(Config(), namespace, cluster.now))
    events: list[Event] = []
    translator = Translator(scope_of(Config()))
    events += translator.advance(cluster.now)
    for name in cluster.topologies:
        events += translator.gangs.topology_seen(name)
    for queue in cluster.queues.values():
        users = QueueUsers(frozenset(pod.metadata.namespace for pod in objects.pods))
        events += translator.gangs.queue_seen(OwnedQueue(queue, users))
    for key, owner in objects.owners:
        events += translator.owner_seen(key, owner)
    for pod in objects.pods:
        events += translator.pod_seen(pod)
    return [event for event in events if isinstance(event, GangSeen | TaskSeen)]


def _events_of_scenario_jobs(manifests: ManifestFile, cluster: Cluster) -> list[Event]:
    """Return the events of jobs in the format of scenario files; refuse names that exist."""
    from windlass.sim.scenario import read_jobs

    events: list[Event] = []
    names = {*cluster.gangs}
    for spot in manifests.documents:
        for arrival in read_jobs(spot, manifests.file, sorted(cluster.topologies)):
            if arrival.gang.id in names:
                problem = f'there is a job "{arrival.gang.id}" already; name it differently'
                raise InputError(manifests.file, spot.line, problem)
            names.add(arrival.gang.id)
            events.append(GangSeen(replace(arrival.gang, created_at=cluster.now)))
            events += [TaskSeen(task) for task in arrival.tasks]
    return events
