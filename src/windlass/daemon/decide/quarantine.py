"""Quarantine marks on nodes: an annotation, which a person may remove.

    fine --gang after gang failed--> annotated --its time is over--> trusted since then
                                        |                                ^
                                        +----- a person removes it ------+

The annotation is the only record, so the next leader finds it. A mark counts as soon as it is
decided, though the watch shows it later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.controllers.quarantine import quarantine_changes
from windlass.kube.ingest import Translator
from windlass.model import units
from windlass.model.events import Event, NodeTrusted
from windlass.model.nodes import Quarantine
from windlass.state.cluster import Cluster
from windlass.workloads.nodes import quarantine_of, quarantine_text
from windlass.workloads.objects import QUARANTINE, TRUSTED, wire

CONDITION = "WindlassQuarantine"
"""The type of the node condition that shows the quarantine to people."""


@dataclass(frozen=True, slots=True)
class NodeMark:
    """A write on a node: a quarantine, or its end (None)."""

    node: str
    quarantine: Quarantine | None
    at: int

    @property
    def path(self) -> str:
        """The path to write to: the status, so that nothing else of the node can be changed."""
        return f"/api/v1/nodes/{self.node}/status"

    def body(self) -> dict[str, Any]:
        """Return the body of a strategic merge patch."""
        found, at = self.quarantine, units.format_timestamp(self.at)
        condition = {
            "type": CONDITION,
            "status": "True" if found else "False",
            "reason": "RepeatedFailures" if found else "TrustedAgain",
            "message": found.what if found else "",
            "lastTransitionTime": at,
        }
        annotations = {QUARANTINE: quarantine_text(found) if found else None}
        if found is None:
            annotations[TRUSTED] = at
        return {"metadata": {"annotations": annotations}, "status": {"conditions": [condition]}}


class QuarantineMarks:
    """The marks that were written on nodes, and those that the watch has shown."""

    def __init__(
        self,
        cluster: Cluster,
        translator: Translator,
        apply: Callable[[Iterable[Event]], None],
    ) -> None:
        self._cluster, self._translator, self._apply = cluster, translator, apply
        self._ahead: dict[str, Quarantine | None] = {}
        """Marks that were written and not shown yet; None is the end of a quarantine."""
        self._shown: set[str] = set()
        """Nodes that the watch has shown with a mark."""
        self._freed: set[str] = set()
        """Nodes from which a person has removed the annotation."""

    def see(self, node: wire.NodeObject) -> wire.NodeObject:
        """Return a node as it will be once the watch shows all marks that were written."""
        name, shown = node.metadata.name, quarantine_of(node)
        if name in self._ahead:
            if shown != self._ahead[name]:
                return _marked(node, self._ahead[name])
            del self._ahead[name]
        elif name in self._shown and shown is None:
            self._freed.add(name)
        (self._shown.discard if shown is None else self._shown.add)(name)
        return node

    def lose(self, name: str) -> None:
        """Forget a node that is gone."""
        self._ahead.pop(name, None)
        self._shown.discard(name)
        self._freed.discard(name)

    def due(self) -> list[NodeMark]:
        """Return the marks to write now, and apply them to the cluster at once."""
        now, marks = self._cluster.now, list[NodeMark]()
        for name in sorted(self._freed):
            self._trust(name)
            marks.append(NodeMark(name, None, now))
        self._freed.clear()
        for node in quarantine_changes(self._cluster):
            if (known := self._translator.node(node.name)) is None:
                continue
            self._ahead[node.name] = node.quarantine
            self._apply(self._translator.node_seen(_marked(known, node.quarantine)))
            if node.quarantine is None:
                self._trust(node.name)
            marks.append(NodeMark(node.name, node.quarantine, now))
        return marks

    def _trust(self, name: str) -> None:
        self._cluster.apply(NodeTrusted(name, self._cluster.now))


def _marked(node: wire.NodeObject, quarantine: Quarantine | None) -> wire.NodeObject:
    annotations = dict(node.metadata.annotations or {})
    annotations.pop(QUARANTINE, None)
    if quarantine is not None:
        annotations[QUARANTINE] = quarantine_text(quarantine)
    meta = msgspec.structs.replace(node.metadata, annotations=annotations)
    return msgspec.structs.replace(node, metadata=meta)
