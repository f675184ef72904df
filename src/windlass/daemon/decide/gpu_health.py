"""Which DCGM exporters are asked, which of them is believed, and what follows for their nodes.

One for each node: the oldest pod with the right label. Whoever can make such a pod can keep a node
out, or hide that it is broken; so pods of users are not asked. These are the pods of namespaces for
which there is a queue, or, where the configuration names the namespaces of exporters, of all
others.

A node whose exporter is silent keeps what was told last for a while. A new leader knows nothing of
what was told before it: it asks before it decides.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from windlass.kube.ingest.translator import Translator
from windlass.workloads.nodes.dcgm import Exporter, Reading, exporter_of, suspects, trouble_of
from windlass.workloads.objects import wire
from windlass.workloads.pods.task import task_id

KEPT_S = 300
"""What a silent exporter told last counts for so long."""
LOOK_EVERY_S = 10
"""How often what is too old is looked for: a cycle in which nothing happens must cost nothing."""


@dataclass(slots=True)
class _ExporterReading:
    process: tuple[str, int]
    at: int
    since: int
    """When its GPUs became suspect."""
    suspects: dict[int, int] = field(default_factory=dict[int, int])


class Measures:
    """What was measured on the nodes."""

    def __init__(self, translator: Translator, believed: Collection[str] = ()) -> None:
        self._translator, self._believed = translator, frozenset(believed)
        self._found: dict[str, Exporter] = {}
        """All pods that look like one."""
        self._chosen: dict[str, Exporter] = {}
        self._told: dict[str, _ExporterReading] = {}
        self._looked_at = 0
        self.is_stale = False
        """Others may have to be asked: a pod, a queue, a namespace or a node is another."""
        self.utilisation: dict[str, tuple[int, ...]] = {}
        """Thousandths of each GPU, by node; -1 where it is not known."""

    # -- who is asked

    def see(self, pod: wire.Pod) -> None:
        """A pod is new or has changed."""
        task, found = task_id(pod), exporter_of(pod)
        if found != self._found.get(task):
            self.lose(pod)
            self.is_stale = True
            if found is not None:
                self._found[task] = found

    def lose(self, pod: wire.Pod) -> None:
        """A pod is gone."""
        if self._found.pop(task_id(pod), None) is not None:
            self.is_stale = True

    def due(self) -> list[Exporter] | None:
        """All that are to be asked from now on; None: the same as before."""
        if not self.is_stale:
            return None
        self.is_stale = False
        chosen: dict[str, Exporter] = {}
        for each in self._trusted():
            if self._translator.node(each.node) is not None:
                chosen.setdefault(each.node, each)
        if chosen == self._chosen:
            return None
        self._chosen = chosen
        return list(chosen.values())

    def _trusted(self) -> Iterable[Exporter]:
        """The oldest first."""
        places = {each.namespace for each in self._found.values()}
        if self._believed:
            trusted = places & self._believed
        else:
            trusted = {each for each in places if not self._translator.gangs.is_named(each)}
        found = (each for each in self._found.values() if each.namespace in trusted)
        return sorted(found, key=lambda each: (each.created, each.process))

    # -- what they tell

    def hear(self, readings: Iterable[tuple[Exporter, Reading]], now: int) -> None:
        """Exporters have answered; one that is not asked any more is not heard."""
        for exporter, reading in readings:
            if self._chosen.get(exporter.node) == exporter:
                self._hear(exporter, reading, now)

    def advance(self, now: int) -> None:
        """Forget what was told too long ago."""
        if now < self._looked_at + LOOK_EVERY_S:
            return
        self._looked_at = now
        for node in [node for node, told in self._told.items() if now >= told.at + KEPT_S]:
            del self._told[node]
            self.utilisation.pop(node, None)
            self._translator.node_ill(node, None)

    def _hear(self, exporter: Exporter, reading: Reading, now: int) -> None:
        node, before = exporter.node, self._told.get(exporter.node)
        known = before.suspects if before and before.process == exporter.process else {}
        found = suspects(known, reading)
        since = before.since if before and before.suspects else now
        self._told[node] = _ExporterReading(exporter.process, now, since, found)
        self.utilisation.pop(node, None)
        if reading.utilisation:
            self.utilisation[node] = reading.utilisation
        self._translator.node_ill(node, trouble_of(found, since))
