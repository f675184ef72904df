"""The health of GPUs, as the DCGM exporters report it: which are scraped, and what follows.

One exporter is scraped for each node: the oldest pod with the right label. A user who can create
such a pod could take a node out of service, or hide that it is broken; so pods of users are not
scraped. These are the pods of namespaces that have a queue or, where the configuration names the
namespaces of exporters, the pods of all other namespaces.

The last reading of an exporter that does not answer counts for a while. A new leader has no
readings: it waits for the first ones before it decides.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from windlass.kube.ingest import Translator
from windlass.model.events import Event
from windlass.workloads.nodes import Exporter, Reading, exporter_of, suspects, trouble_of_gpus
from windlass.workloads.objects import wire
from windlass.workloads.pods import task_id

KEPT_S = 300
"""Seconds for which the last reading of an exporter counts."""
LOOK_EVERY_S = 10
"""Seconds between two searches for old readings: a step without inputs must cost nothing."""


@dataclass(slots=True)
class _ExporterReading:
    """The last reading of an exporter."""

    process: tuple[str, int]
    at: int
    since: int
    """The second at which its GPUs became suspect."""
    suspects: dict[int, int] = field(default_factory=dict[int, int])


class GpuHealth:
    """The exporters, and their last readings."""

    def __init__(
        self,
        translator: Translator,
        apply: Callable[[Iterable[Event]], None],
        namespaces: Collection[str] = (),
    ) -> None:
        self._translator, self._apply = translator, apply
        self._namespaces = frozenset(namespaces)
        """The namespaces of trusted exporters; empty: all that have no queue."""
        self._candidates: dict[str, Exporter] = {}
        """All pods that look like an exporter."""
        self._chosen: dict[str, Exporter] = {}
        """The exporter that is scraped for each node."""
        self._readings: dict[str, _ExporterReading] = {}
        self._looked_at = 0
        self.is_stale = False
        """A pod, queue, namespace or node has changed: other exporters may have to be scraped."""
        self.utilisation: dict[str, tuple[int, ...]] = {}
        """The utilisation of each GPU in thousandths, by node; -1 where it is not known."""

    # -- exporters

    def see(self, pod: wire.Pod) -> None:
        """Take note of a pod that is new or has changed."""
        task, exporter = task_id(pod), exporter_of(pod)
        if exporter != self._candidates.get(task):
            self.lose(pod)
            self.is_stale = True
            if exporter is not None:
                self._candidates[task] = exporter

    def lose(self, pod: wire.Pod) -> None:
        """Forget a pod that is gone."""
        if self._candidates.pop(task_id(pod), None) is not None:
            self.is_stale = True

    def due(self) -> list[Exporter] | None:
        """Return all exporters to scrape from now on; None if they are the same as before."""
        if not self.is_stale:
            return None
        self.is_stale = False
        chosen: dict[str, Exporter] = {}
        for exporter in self._trusted():
            if self._translator.node(exporter.node) is not None:
                chosen.setdefault(exporter.node, exporter)
        if chosen == self._chosen:
            return None
        self._chosen = chosen
        return list(chosen.values())

    def _trusted(self) -> Iterable[Exporter]:
        """Return the trusted exporters, the oldest first."""
        places = {each.namespace for each in self._candidates.values()}
        if self._namespaces:
            trusted = places & self._namespaces
        else:
            trusted = {each for each in places if not self._translator.gangs.is_named(each)}
        exporters = (each for each in self._candidates.values() if each.namespace in trusted)
        return sorted(exporters, key=lambda each: (each.created, each.process))

    # -- readings

    def hear(self, readings: Iterable[tuple[Exporter, Reading]], now: int) -> None:
        """Take note of readings; those of exporters that are not scraped any more are ignored."""
        for exporter, reading in readings:
            if self._chosen.get(exporter.node) == exporter:
                self._hear(exporter, reading, now)

    def advance(self, now: int) -> None:
        """Forget readings older than `KEPT_S`."""
        if now < self._looked_at + LOOK_EVERY_S:
            return
        self._looked_at = now
        for node in [node for node, last in self._readings.items() if now >= last.at + KEPT_S]:
            del self._readings[node]
            self.utilisation.pop(node, None)
            self._apply(self._translator.node_trouble_seen(node, None))

    def _hear(self, exporter: Exporter, reading: Reading, now: int) -> None:
        node, before = exporter.node, self._readings.get(exporter.node)
        known = before.suspects if before and before.process == exporter.process else {}
        suspected = suspects(known, reading)
        since = before.since if before and before.suspects else now
        self._readings[node] = _ExporterReading(exporter.process, now, since, suspected)
        self.utilisation.pop(node, None)
        if reading.utilisation:
            self.utilisation[node] = reading.utilisation
        self._apply(self._translator.node_trouble_seen(node, trouble_of_gpus(suspected, since)))
