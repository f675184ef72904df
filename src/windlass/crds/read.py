"""From objects as the API server holds them to the nouns of the model.

The API server has checked them against the schema, but perhaps an older one, or before a rule was
added. So reading may fail: then there is no noun, but complaints, each a sentence for the object's
owner. Whoever reads keeps what it knew before.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from windlass.crds.amounts import dimensions
from windlass.crds.base import CrdModel
from windlass.crds.gang import DomainSpec, GangSpec
from windlass.crds.policy import PolicySpec
from windlass.crds.queue import QueueSpec, Selector
from windlass.crds.topology import TopologySpec
from windlass.model.constraints import Expression, Operator, Term
from windlass.model.jobs import Domain, Gang, Group
from windlass.model.queues import ROOT, Queue
from windlass.model.settings import Displacing, Ordering, Packing, Settings, Victims
from windlass.model.topology import Topology

Noun = TypeVar("Noun")
Spec = TypeVar("Spec", bound=CrdModel)
Object = Mapping[str, Any]
"""The spec of an object, as plain values."""


@dataclass(frozen=True, slots=True)
class Read(Generic[Noun]):
    """What an object says, or what is wrong with it."""

    noun: Noun | None = None
    complaints: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Users:
    """Who may use a queue: namespaces by name, and by label where a term is given."""

    names: frozenset[str] = frozenset()
    term: Term | None = None
    """An empty term holds for every namespace; None for no other than those named."""


@dataclass(frozen=True, slots=True)
class OwnedQueue:
    """A queue and who may use it."""

    queue: Queue
    users: Users


def read_queue(name: str, spec: Object) -> Read[OwnedQueue]:
    """The queue that a Queue object describes."""
    found = _parsed(QueueSpec, f'queue "{name}"', spec)
    if found.noun is None:
        return Read(complaints=found.complaints)
    words = found.noun
    queue = Queue(
        name,
        words.parent or ROOT,
        dimensions(words.guarantee),
        dimensions(words.limit),
        dimensions(words.lend),
        words.weight,
        words.tier,
        words.min_run_seconds,
    )
    users = Users(frozenset(words.namespaces), _term(words.namespace_selector))
    return Read(OwnedQueue(queue, users))


def read_topology(name: str, spec: Object) -> Read[Topology]:
    """The topology that a Topology object describes."""
    found = _parsed(TopologySpec, f'topology "{name}"', spec)
    if found.noun is None:
        return Read(complaints=found.complaints)
    return Read(Topology(name, tuple(found.noun.levels)))


def read_settings(name: str, spec: Object) -> Read[Settings]:
    """The settings that a Policy object describes."""
    found = _parsed(PolicySpec, f'policy "{name}"', spec)
    if found.noun is None:
        return Read(complaints=found.complaints)
    words = found.noun
    return Read(
        Settings(
            nodes=Packing(words.nodes),
            gpus=Packing(words.gpus),
            half_life_s=words.half_life_seconds,
            usage_effect=words.usage_effect,
            epoch_s=words.epoch_seconds,
            reserve_after_s=words.reserve_after_seconds,
            order=Ordering(words.order),
            age_s=words.age_seconds,
            displacing=tuple(Displacing(way) for way in words.displacing),
            victims=Victims(words.victims),
            min_run_s=words.min_run_seconds,
            dwell_s=words.dwell_seconds,
            patience_s=words.patience_seconds,
            stale_after_s=words.stale_after_seconds,
            stuck_after_s=words.stuck_after_seconds,
            longest_grace_s=words.longest_grace_seconds,
            lost_after_s=words.lost_after_seconds,
            heed_notices=words.heed_notices,
            delete_from_lost=words.delete_from_lost,
            quarantine_after=words.quarantine_after,
            quarantine_s=words.quarantine_seconds,
            give_up_after=words.give_up_after,
            failure_window_s=words.failure_window_seconds,
            search_again_s=words.search_again_seconds,
            search_steps=words.search_steps,
        )
    )


def read_gang(name: str, spec: Object) -> Read[GangSpec]:
    """What a Gang object says; `shaped` puts it on a gang of the model."""
    return _parsed(GangSpec, f'gang "{name}"', spec)


def shaped(gang: Gang, words: GangSpec, only_topology: str = "") -> Gang:
    """The gang as its object wants it.

    The queue and the priority stay as they are: who may use a queue and what a PriorityClass is
    worth is known elsewhere. So does what it does not say. `only_topology` stands in where a domain
    names none.
    """
    groups = tuple(
        Group(each.name, each.minimum, _domain(each.domain, only_topology)) for each in words.groups
    )
    after, stale = words.displaces_after_seconds, words.stale_after_seconds
    never = after < 0 or gang.displaces_after_s is None
    return replace(
        gang,
        groups=groups or (Group(minimum=words.minimum or 1),),
        minimum=(words.minimum or 0) if groups else 0,
        domain=_domain(words.domain, only_topology),
        preemptible=gang.preemptible if words.preemptible is None else words.preemptible,
        duration_s=words.expected_seconds or gang.duration_s,
        displaces_after_s=None if never else after,
        stale_after_s=gang.stale_after_s if stale is None else stale,
    )


def _domain(words: DomainSpec | None, only_topology: str) -> Domain | None:
    if words is None:
        return None
    return Domain(words.topology or only_topology, words.level, words.required)


def _term(selector: Selector | None) -> Term | None:
    if selector is None:
        return None
    labels = [
        Expression(key, Operator.IN, (value,))
        for key, value in sorted(selector.match_labels.items())
    ]
    conditions = [
        Expression(each.key, Operator(each.operator), tuple(each.values))
        for each in selector.match_expressions
    ]
    return (*labels, *conditions)


def _parsed(kind: type[Spec], subject: str, spec: Object) -> Read[Spec]:
    try:
        return Read(kind.model_validate(spec))
    except ValidationError as error:
        found = error.errors(include_url=False)
        return Read(complaints=tuple(_complaint(subject, each) for each in found))


def _complaint(subject: str, error: ErrorDetails) -> str:
    where = ".".join(str(step) for step in error["loc"]) or "spec"
    context = error.get("ctx", {})
    if error["type"] == "missing":
        return f"{subject}: {where} is missing; add it"
    if error["type"] == "value_error":
        return f"{subject}: {where}: {context['error']}"
    told = error["msg"].lower().replace("input should", "it should")
    return f"{subject}: {where}: {told}, but it is {str(error['input'])[:40]}; correct it"
