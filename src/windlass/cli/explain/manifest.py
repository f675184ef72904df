"""`windlass explain --before`: what would become of a job, before it is submitted.

A manifest becomes the pods that its controllers would make of it, and these are read like any
others. A job in the words of scenario files is taken as it is. Either way it is shown to the engine
as if it had been submitted now, and nothing is written anywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from windlass.cli.explain.context import ExplainContext, on_sight, with_events
from windlass.cli.explain.manifest_files import ManifestFile, left_out, made_of
from windlass.model.errors import InputError
from windlass.model.events import Event, GangSeen, TaskSeen

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.daemon.decide.inputs import StepInput
    from windlass.state.cluster import Cluster
    from windlass.workloads.manifests.expand import ClusterDefaults, Made


def submitted(
    scene: ExplainContext, wanted: ManifestFile, namespace: str = "default"
) -> tuple[ExplainContext, list[str]]:
    """A scene with the job submitted to it, and the names of its gangs."""
    from windlass.workloads.kinds.table import KINDS

    if wanted.is_manifest:
        events = _of_manifests(wanted, scene.cluster, namespace)
        scene = _noted(scene, left_out(wanted, KINDS))
    else:
        events = _of_words(wanted, scene.cluster)
    gangs = [str(event.gang.id) for event in events if isinstance(event, GangSeen)]
    return with_events(scene, events), list(dict.fromkeys(gangs))


def submitted_on_cluster(
    config: Config, wanted: ManifestFile, namespace: str
) -> tuple[ExplainContext, list[str]]:
    """The same on a cluster, read by the leader's own settings and doors."""
    import asyncio

    from windlass.daemon.loop.read_cluster import look
    from windlass.workloads.pods.task import task_id

    if not wanted.is_manifest:
        return submitted(on_sight(asyncio.run(look(config))), wanted)
    found: list[tuple[Made, str]] = []

    def more(pieces: Sequence[StepInput], config: Config, now: int) -> list[StepInput]:
        terms = _terms(config, namespace, now, pieces)
        made = made_of(wanted, terms)
        found.append((made, "; ".join(filter(None, _remarks(wanted, terms, made, pieces)))))
        return _as_seen(made)

    scene = on_sight(asyncio.run(look(config, more=more)))
    (made, others) = found[0]
    tasks = (scene.cluster.tasks.get(task_id(pod)) for pod in made.pods)
    gangs = (str(task.gang) for task in tasks if task is not None)
    return _noted(scene, others), list(dict.fromkeys(gangs))


def _remarks(
    wanted: ManifestFile, terms: ClusterDefaults, made: Made, pieces: Sequence[StepInput]
) -> Iterator[str]:
    """What is not told of, and what is told of as if it were new."""
    from windlass.kube.refs import ObjectObserved
    from windlass.model.validation.problems import listed
    from windlass.workloads.objects.wire import Owner, Pod

    yield left_out(wanted, terms.kinds)
    there = {
        (each.kind, each.object.metadata.namespace, each.object.metadata.name)
        for each in pieces
        if isinstance(each, ObjectObserved) and isinstance(each.object, Owner | Pod)
    }
    mine = (each for each in _as_seen(made) if isinstance(each, ObjectObserved))
    names = [
        f"{meta.namespace}/{meta.name}"
        for kind, meta in ((each.kind, each.object.metadata) for each in mine)
        if (kind, meta.namespace, meta.name) in there
    ]
    if names:
        yield f"{listed(names)} exists already; this is told as if another came beside it"


def _noted(scene: ExplainContext, sentence: str) -> ExplainContext:
    return replace(scene, notice="; ".join(filter(None, (scene.notice, sentence))))


def _as_seen(made: Made) -> list[StepInput]:
    from windlass.kube.refs import ObjectObserved

    owners = [ObjectObserved(str(key), owner) for key, owner in made.owners]
    return [*owners, *(ObjectObserved("pods", pod) for pod in made.pods)]


def _terms(
    config: Config, namespace: str, now: int, pieces: Iterable[StepInput] | None = None
) -> ClusterDefaults:
    from windlass.daemon.serving.context import scope_of
    from windlass.kube.refs import ObjectObserved
    from windlass.model.units import format_timestamp
    from windlass.workloads.manifests.expand import ClusterDefaults
    from windlass.workloads.objects.wire import PriorityClass

    priorities: dict[str, int] | None = None
    if pieces is not None:
        seen = (each.object for each in pieces if isinstance(each, ObjectObserved))
        classes = (each for each in seen if isinstance(each, PriorityClass))
        priorities = {each.metadata.name: each.value for each in classes}
    scope = scope_of(config)
    return ClusterDefaults(
        namespace, sorted(scope.schedulers)[0], format_timestamp(now), priorities, scope.kinds
    )


def _of_manifests(wanted: ManifestFile, cluster: Cluster, namespace: str) -> list[Event]:
    """The events of the pods, in a cluster of which only its file is known: it opens all queues."""
    from windlass.config import Config
    from windlass.crds.read import OwnedQueue, Users
    from windlass.daemon.serving.context import scope_of
    from windlass.kube.ingest.translator import Translator

    made = made_of(wanted, _terms(Config(), namespace, cluster.now))
    told: list[Event] = []
    translator = Translator(scope_of(Config()))
    told += translator.advance(cluster.now)
    for name in cluster.topologies:
        told += translator.gangs.topology_seen(name)
    for queue in cluster.queues.values():
        everyone = Users(frozenset(pod.metadata.namespace for pod in made.pods))
        told += translator.gangs.queue_seen(OwnedQueue(queue, everyone))
    for key, owner in made.owners:
        told += translator.owner_seen(key, owner)
    for pod in made.pods:
        told += translator.pod_seen(pod)
    return [event for event in told if isinstance(event, GangSeen | TaskSeen)]


def _of_words(wanted: ManifestFile, cluster: Cluster) -> list[Event]:
    from windlass.sim.scenario.job import read_jobs

    found: list[Event] = []
    taken = {*cluster.gangs}
    for spot in wanted.documents:
        for arrival in read_jobs(spot, wanted.file, sorted(cluster.topologies)):
            if arrival.gang.id in taken:
                what = f'there is a job "{arrival.gang.id}" already; name it differently'
                raise InputError(wanted.file, spot.line, what)
            taken.add(arrival.gang.id)
            found.append(GangSeen(replace(arrival.gang, created_at=cluster.now)))
            found += [TaskSeen(task) for task in arrival.tasks]
    return found
