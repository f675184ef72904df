"""Quarantine marks on nodes: an annotation, which a person may remove.

    fine --gang after gang failed--> annotated --its time is over--> trusted since then
                                        |                                ^
                                        +----- a person removes it ------+

The annotation is the only record, so the next leader finds it. A mark counts as soon as it is
decided, though the watch shows it later. Where checks are configured, the end of a quarantine is
the success of a Job (`controllers/node_checks.py`); the step asks for that Job until it sees it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, cast

import msgspec

from windlass.controllers.node_checks import (
    NO_CHECKS,
    NodeCheck,
    NodeCheckRules,
    can_be_checked,
    check_is_over,
    check_of,
    nodes_to_check,
)
from windlass.controllers.quarantine import quarantine_changes
from windlass.kube.ingest import Translator
from windlass.model import units
from windlass.model.events import Event, NodeTrusted
from windlass.model.nodes import Node, Quarantine
from windlass.state.cluster import Cluster
from windlass.workloads.nodes import quarantine_of, quarantine_text, trusted_since
from windlass.workloads.objects import QUARANTINE, TRUSTED, wire

CONDITION = "WindlassQuarantine"
"""The type of the node condition that shows the quarantine to people."""
NEW_S = 3600
"""A node that is younger than this when it is first seen is new; older ones were in service before
checks were configured."""
ASK_AGAIN_S = 30
"""Seconds after which a check Job that does not appear is created again."""


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
        checks: NodeCheckRules = NO_CHECKS,
    ) -> None:
        self._cluster, self._translator, self._apply = cluster, translator, apply
        self._checks = checks
        self._jobs: dict[str, bool | None] = {}
        """The check Jobs that were seen, by name: succeeded, failed, or None while they run."""
        self._asked: dict[str, int] = {}
        """The times at which check Jobs were asked for, by name."""
        self._opened: set[str] = set()
        """Nodes that have taken tasks since this process leads, or were in service before."""
        self._ahead: dict[str, Quarantine | None] = {}
        """Marks that were written and not shown yet; None is the end of a quarantine."""
        self._shown: set[str] = set()
        """Nodes that the watch has shown with a mark."""
        self._changed: set[str] = set()
        """Nodes whose mark is to be written."""
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

    def see_job(self, job: wire.Owner, gone: bool) -> None:
        """Take note of a Job in the namespace of check Jobs; of others nothing is remembered."""
        name = job.metadata.name
        if job.metadata.namespace != self._checks.namespace:
            return
        if gone:
            self._jobs.pop(name, None)
            return
        types = {each.get("type"): each.get("status") for each in _conditions(job)}
        ended = {True: types.get("Complete"), False: types.get("Failed")}
        self._jobs[name] = next((how for how, is_so in ended.items() if is_so == "True"), None)

    def cannot_check(self, check: NodeCheck, why: str) -> None:
        """Take note that a check Job could not be created; say so on the node."""
        node = self._cluster.nodes.get(check.node)
        if node is not None and node.quarantine is not None and check_of(node) == check:
            what = f"its check cannot start: {why}"
            self._change(replace(node, quarantine=replace(node.quarantine, what=what)))

    def due(self) -> list[NodeMark]:
        """Return the marks to write now, and apply them to the cluster at once."""
        now, marks = self._cluster.now, list[NodeMark]()
        for name in sorted(self._freed):
            self._trust(name)
            marks.append(NodeMark(name, None, now))
        self._freed.clear()
        for node in [*quarantine_changes(self._cluster, self._checks), *self._checked()]:
            self._change(node)
            if node.quarantine is None:
                self._trust(node.name)
        marks += [NodeMark(name, self._ahead[name], now) for name in sorted(self._changed)]
        self._changed.clear()
        return marks

    def checks_due(self) -> list[NodeCheck]:
        """Return the check Jobs to create now; each again after a while if it does not appear."""
        now, due = self._cluster.now, list[NodeCheck]()
        for node, check in self._awaited():
            asked = self._asked.get(check.job)
            is_time = asked is None or now >= asked + ASK_AGAIN_S
            if check.job not in self._jobs and is_time and can_be_checked(self._cluster, node):
                self._asked[check.job] = now
                due.append(check)
        return due

    def _checked(self) -> Iterator[Node]:
        """Yield the nodes whose check begins or is over."""
        nodes = self._cluster.nodes
        for node, check in list(self._awaited()):
            outcome = self._jobs.get(check.job) if self._checks.occasions else True
            if outcome is not None:
                self._asked.pop(check.job, None)
                yield check_is_over(node, outcome, self._checks.retry_s, self._cluster.now)
        if not self._checks.occasions:
            return
        new = {name: self._is_new(name) for name in nodes.keys() - self._opened}
        yield from list(nodes_to_check(self._cluster, self._checks, self._opened, new))
        self._opened.intersection_update(nodes)
        self._opened.update(name for name in new if not new[name] or nodes[name].is_open)

    def _awaited(self) -> Iterator[tuple[Node, NodeCheck]]:
        quarantined = [node for node in self._cluster.nodes.values() if node.quarantine is not None]
        for node in sorted(quarantined, key=lambda node: node.name):
            if (check := check_of(node)) is not None:
                yield node, check

    def _is_new(self, name: str) -> bool:
        found = self._translator.node(name)
        if found is None or trusted_since(found) is not None:
            return False
        made = units.parse_timestamp_or_none(found.metadata.creation_timestamp)
        return made is not None and made > self._cluster.now - NEW_S

    def _change(self, node: Node) -> None:
        """Let the cluster see a node with another quarantine, and remember to write it."""
        if (known := self._translator.node(node.name)) is None:
            return
        self._ahead[node.name] = node.quarantine
        self._changed.add(node.name)
        self._apply(self._translator.node_seen(_marked(known, node.quarantine)))

    def _trust(self, name: str) -> None:
        self._cluster.apply(NodeTrusted(name, self._cluster.now))


def _marked(node: wire.NodeObject, quarantine: Quarantine | None) -> wire.NodeObject:
    annotations = dict(node.metadata.annotations or {})
    annotations.pop(QUARANTINE, None)
    if quarantine is not None:
        annotations[QUARANTINE] = quarantine_text(quarantine)
    meta = msgspec.structs.replace(node.metadata, annotations=annotations)
    return msgspec.structs.replace(node, metadata=meta)


def _conditions(job: wire.Owner) -> list[dict[str, Any]]:
    return cast("list[dict[str, Any]]", job.status.get("conditions") or [])
