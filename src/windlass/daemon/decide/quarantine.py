"""Quarantines on the nodes themselves: an annotation, which a person may remove.

    fine --gang after gang failed--> annotated --its time is over--> trusted since then
                                        |                                ^
                                        +----- a person removes it ------+

The annotation is all there is, so a successor finds it. What we write counts at once, though the
watch shows it later.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.controllers.quarantine import due
from windlass.kube.ingest.translator import Translator
from windlass.model import units
from windlass.model.events import NodeTrusted
from windlass.model.nodes import Quarantine
from windlass.state.cluster import Cluster
from windlass.workloads.nodes.health import quarantine_of, text_of
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import QUARANTINE, TRUSTED

CONDITION = "WindlassQuarantine"


@dataclass(frozen=True, slots=True)
class NodeMark:
    """What is to be written on a node: a quarantine, or that it is over."""

    node: str
    quarantine: Quarantine | None
    at: int

    @property
    def path(self) -> str:
        """Where to write: the status, so that nothing else of the node can be changed."""
        return f"/api/v1/nodes/{self.node}/status"

    def body(self) -> dict[str, Any]:
        """A strategic patch."""
        found, at = self.quarantine, units.format_timestamp(self.at)
        condition = {
            "type": CONDITION,
            "status": "True" if found else "False",
            "reason": "RepeatedFailures" if found else "TrustedAgain",
            "message": found.what if found else "",
            "lastTransitionTime": at,
        }
        annotations = {QUARANTINE: text_of(found) if found else None}
        if found is None:
            annotations[TRUSTED] = at
        return {"metadata": {"annotations": annotations}, "status": {"conditions": [condition]}}


class Quarantines:
    """What is written on nodes, and what the watch has shown of it."""

    def __init__(self, cluster: Cluster, translator: Translator) -> None:
        self._cluster, self._translator = cluster, translator
        self._ahead: dict[str, Quarantine | None] = {}
        """Written, and not shown yet."""
        self._shown: set[str] = set()
        self._freed: set[str] = set()
        """Nodes from which a person took the annotation."""

    def see(self, node: wire.NodeObject) -> wire.NodeObject:
        """A node as it is once all that we write is there."""
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
        """A node is gone."""
        self._ahead.pop(name, None)
        self._shown.discard(name)
        self._freed.discard(name)

    def due(self) -> list[NodeMark]:
        """What is to be written now; it counts already."""
        now, marks = self._cluster.now, list[NodeMark]()
        for name in sorted(self._freed):
            self._trust(name)
            marks.append(NodeMark(name, None, now))
        self._freed.clear()
        for node in due(self._cluster):
            if (known := self._translator.node(node.name)) is None:
                continue
            self._ahead[node.name] = node.quarantine
            self._translator.node_seen(_marked(known, node.quarantine))
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
        annotations[QUARANTINE] = text_of(quarantine)
    meta = msgspec.structs.replace(node.metadata, annotations=annotations)
    return msgspec.structs.replace(node, metadata=meta)
