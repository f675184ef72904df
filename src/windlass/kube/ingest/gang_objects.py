"""Gang objects: what they say about the gangs that pods name by a label."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from windlass.crds.gang import GangSpec
from windlass.crds.read import Read, read_gang, shaped
from windlass.model.jobs import Gang, GangId
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.validation.problems import listed
from windlass.workloads.kinds.table import Key
from windlass.workloads.objects.annotations import GROUP, QUEUE
from windlass.workloads.objects.wire import ObjectMeta, Owner

GANGS = Key("Gang", "windlass.dev")


class Explicit:
    """All Gang objects, by the gang they are about."""

    def __init__(self) -> None:
        self._read: dict[GangId, Read[GangSpec]] = {}
        self._topologies: set[str] = set()

    def see(self, found: Owner) -> GangId:
        """An object is new or has changed; answers which gang it is about."""
        gang = gang_id(found.metadata)
        self._read[gang] = read_gang(found.metadata.name, found.spec)
        return gang

    def lose(self, found: Owner) -> GangId:
        """An object was deleted."""
        gang = gang_id(found.metadata)
        self._read.pop(gang, None)
        return gang

    def see_topology(self, name: str) -> list[GangId]:
        """A topology is there; answers whom that may concern."""
        self._topologies.add(name)
        return sorted(self._read)

    def lose_topology(self, name: str) -> list[GangId]:
        """A topology was deleted."""
        self._topologies.discard(name)
        return sorted(self._read)

    def queue_of(self, gang: GangId) -> str:
        """The queue that an object names."""
        read = self._read.get(gang)
        return (read.noun.queue or "") if read and read.noun else ""

    def shape(self, gang: Gang, queues: Iterable[str], groups: Iterable[str]) -> Gang:
        """A gang as its object wants it, whose pods name these queues and groups."""
        read = self._read.get(gang.id)
        if read is None:
            return gang
        if read.noun is None:
            return _refused(gang, read.complaints[0])
        wrong = _contradiction(read.noun, queues, groups) or self._doubt(read.noun)
        only = next(iter(self._topologies)) if len(self._topologies) == 1 else ""
        found = shaped(gang, read.noun, only)
        return _refused(found, wrong) if wrong else found

    def _doubt(self, words: GangSpec) -> str:
        """Which of its domains lies in no topology that there is."""
        wanted = [words.domain, *(each.domain for each in words.groups)]
        for domain in (each for each in wanted if each is not None):
            if domain.topology and domain.topology not in self._topologies:
                return f"its topology {domain.topology} does not exist; create it, or name another"
            if not domain.topology and len(self._topologies) != 1:
                there = listed(sorted(self._topologies)) or "none"
                return f"it names no topology, and there is not one alone ({there}); name one"
        return ""


def gang_id(meta: ObjectMeta) -> GangId:
    """The gang that an object is about: its pods name it in its namespace."""
    return GangId(f"{meta.namespace}/{meta.name}")


def _refused(gang: Gang, what: str) -> Gang:
    return replace(gang, refusal=gang.refusal or Reason(ReasonCode.UNREADABLE, {"what": what}))


def _contradiction(words: GangSpec, queues: Iterable[str], groups: Iterable[str]) -> str:
    others = {each for each in queues if each and words.queue and each != words.queue}
    if others:
        return f"its Gang names queue {words.queue}, and label {QUEUE} of a pod {min(others)}"
    known = {each.name for each in words.groups}
    strangers = {each for each in groups if each not in known} if known else set[str]()
    if strangers:
        found = f'"{min(strangers)}"' if min(strangers) else "not set"
        return f"label {GROUP} of a pod is {found}; its Gang has {listed(sorted(known))}"
    return ""
