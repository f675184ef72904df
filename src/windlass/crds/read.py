"""The conversion of custom resources, as the API server stores them, to the model.

The API server has validated the objects, but perhaps against an older schema, or before a rule was
added, so that reading may fail. The result then holds no value but complaints, each a sentence for
the owner of the object, and callers keep the value that they read last.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from windlass.crds.amounts import dimensions
from windlass.crds.base import CrdModel
from windlass.crds.gang import DomainSpec, GangSpec, TopologySpec
from windlass.crds.policy import PolicySpec
from windlass.crds.queue import QueueSpec, Selector
from windlass.model.constraints import Expression, Operator, Term
from windlass.model.jobs import Domain, Gang, Group
from windlass.model.nodes import Topology
from windlass.model.queues import ROOT, Queue
from windlass.model.settings import Displacing, Ordering, Packing, Settings, Victims

Noun = TypeVar("Noun")
Spec = TypeVar("Spec", bound=CrdModel)
Object = Mapping[str, Any]
"""The spec of an object, as decoded JSON."""


@dataclass(frozen=True, slots=True)
class ReadResult(Generic[Noun]):
    """The value that an object describes, or the complaints about it."""

    value: Noun | None = None
    """The value; None if the object cannot be read."""
    complaints: tuple[str, ...] = ()
    """One sentence per fault; empty if there is a value."""


@dataclass(frozen=True, slots=True)
class QueueUsers:
    """The namespaces that may use a queue: by name, and by label if there is a term."""

    names: frozenset[str] = frozenset()
    term: Term | None = None
    """A term on namespace labels. An empty term holds for every namespace; None: for no namespace
    besides those in `names`."""


@dataclass(frozen=True, slots=True)
class OwnedQueue:
    """A queue and the namespaces that may use it."""

    queue: Queue
    users: QueueUsers


def read_queue(name: str, spec: Object) -> ReadResult[OwnedQueue]:
    """Return the queue that a Queue object describes, with its users."""
    parsed = _parse(QueueSpec, f'queue "{name}"', spec)
    if parsed.value is None:
        return ReadResult(complaints=parsed.complaints)
    fields = parsed.value
    queue = Queue(
        name,
        fields.parent or ROOT,
        dimensions(fields.guarantee),
        dimensions(fields.limit),
        dimensions(fields.lend),
        fields.weight,
        fields.tier,
        fields.min_run_seconds,
    )
    users = QueueUsers(frozenset(fields.namespaces), _term(fields.namespace_selector))
    return ReadResult(OwnedQueue(queue, users))


def read_topology(name: str, spec: Object) -> ReadResult[Topology]:
    """Return the topology that a Topology object describes."""
    parsed = _parse(TopologySpec, f'topology "{name}"', spec)
    if parsed.value is None:
        return ReadResult(complaints=parsed.complaints)
    return ReadResult(Topology(name, tuple(parsed.value.levels)))


def read_settings(name: str, spec: Object) -> ReadResult[Settings]:
    """Return the settings that a Policy object describes."""
    parsed = _parse(PolicySpec, f'policy "{name}"', spec)
    if parsed.value is None:
        return ReadResult(complaints=parsed.complaints)
    fields = parsed.value
    return ReadResult(
        Settings(
            nodes=Packing(fields.nodes),
            gpus=Packing(fields.gpus),
            half_life_s=fields.half_life_seconds,
            usage_effect=fields.usage_effect,
            epoch_s=fields.epoch_seconds,
            reserve_after_s=fields.reserve_after_seconds,
            order=Ordering(fields.order),
            age_s=fields.age_seconds,
            displacing=tuple(Displacing(way) for way in fields.displacing),
            victims=Victims(fields.victims),
            min_run_s=fields.min_run_seconds,
            dwell_s=fields.dwell_seconds,
            patience_s=fields.patience_seconds,
            stale_after_s=fields.stale_after_seconds,
            stuck_after_s=fields.stuck_after_seconds,
            longest_grace_s=fields.longest_grace_seconds,
            lost_after_s=fields.lost_after_seconds,
            heed_notices=fields.heed_notices,
            delete_from_lost=fields.delete_from_lost,
            quarantine_after=fields.quarantine_after,
            quarantine_s=fields.quarantine_seconds,
            give_up_after=fields.give_up_after,
            failure_window_s=fields.failure_window_seconds,
            search_again_s=fields.search_again_seconds,
            search_steps=fields.search_steps,
        )
    )


def read_gang(name: str, spec: Object) -> ReadResult[GangSpec]:
    """Return the spec of a Gang object; `apply_gang_spec` applies it to a gang of the model."""
    return _parse(GangSpec, f'gang "{name}"', spec)


def apply_gang_spec(gang: Gang, spec: GangSpec, only_topology: str = "") -> Gang:
    """Return the gang with the settings of its Gang object.

    Fields that the object does not set are kept. So are the queue and the priority: the caller
    knows the users of the queues and the values of the PriorityClasses. `only_topology` is the
    topology of a domain that names none.
    """
    groups = tuple(
        Group(group.name, group.minimum, _domain(group.domain, only_topology))
        for group in spec.groups
    )
    after, stale = spec.displaces_after_seconds, spec.stale_after_seconds
    never = after < 0 or gang.displaces_after_s is None
    return replace(
        gang,
        groups=groups or (Group(minimum=spec.minimum or 1),),
        minimum=(spec.minimum or 0) if groups else 0,
        domain=_domain(spec.domain, only_topology),
        preemptible=gang.preemptible if spec.preemptible is None else spec.preemptible,
        duration_s=spec.expected_seconds or gang.duration_s,
        displaces_after_s=None if never else after,
        stale_after_s=gang.stale_after_s if stale is None else stale,
    )


def _domain(spec: DomainSpec | None, only_topology: str) -> Domain | None:
    if spec is None:
        return None
    return Domain(spec.topology or only_topology, spec.level, spec.required)


def _term(selector: Selector | None) -> Term | None:
    if selector is None:
        return None
    labels = [
        Expression(key, Operator.IN, (value,))
        for key, value in sorted(selector.match_labels.items())
    ]
    conditions = [
        Expression(condition.key, Operator(condition.operator), tuple(condition.values))
        for condition in selector.match_expressions
    ]
    return (*labels, *conditions)


def _parse(kind: type[Spec], subject: str, spec: Object) -> ReadResult[Spec]:
    try:
        return ReadResult(kind.model_validate(spec))
    except ValidationError as error:
        faults = error.errors(include_url=False)
        return ReadResult(complaints=tuple(_complaint(subject, fault) for fault in faults))


def _complaint(subject: str, error: ErrorDetails) -> str:
    where = ".".join(str(step) for step in error["loc"]) or "spec"
    context = error.get("ctx", {})
    if error["type"] == "missing":
        return f"{subject}: {where} is missing; add it"
    if error["type"] == "value_error":
        return f"{subject}: {where}: {context['error']}"
    expected = error["msg"].lower().replace("input should", "it should")
    return f"{subject}: {where}: {expected}, but it is {str(error['input'])[:40]}; correct it"
