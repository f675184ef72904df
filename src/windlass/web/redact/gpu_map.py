"""The map for somebody who may not see all of it.

Gangs that may not be listed keep their GPUs and lose everything else: all of them in one queue
become one nameless gang with one nameless task. Who may not list nodes sees those on which their
own gangs are, and no others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields, replace
from typing import TypeVar

from windlass.web.auth.authorization import VisibleScope
from windlass.web.schema.documents import ClusterDocument
from windlass.web.schema.map_columns import (
    AllocationColumns,
    GangColumns,
    HoldColumns,
    NodeColumns,
    RackColumns,
    TaskColumns,
)

Columns = TypeVar("Columns", AllocationColumns, HoldColumns, NodeColumns, RackColumns)


def veil_map(document: ClusterDocument, view: VisibleScope) -> ClusterDocument:
    """The map with what may be seen."""
    nameless = _without_names(document, view)
    return nameless if view.nodes else _own_nodes(nameless)


def _without_names(document: ClusterDocument, view: VisibleScope) -> ClusterDocument:
    # queues in the order of the tree, whether they have anything or not; then one for all others
    seen = (each for each in document.queues if view.sees_queue(each))
    queues = {name: number for number, name in enumerate(seen)}
    users, namespaces = dict[str, int](), dict[str, int]()
    gangs, gang_of = GangColumns([], [], [], [], [], []), list[int]()
    others: dict[int, int] = {}
    old = document.gangs
    for number, name in enumerate(old.name):
        theirs = document.queues[old.queue[number]]
        queue = _number(queues, theirs if view.sees_queue(theirs) else "")
        if view.sees_gang(name):
            user = _number(users, document.users[old.user[number]])
            namespace = _number(namespaces, document.namespaces[old.namespace[number]])
            row = (name, old.job[number], queue, user, namespace, old.priority[number])
            gang_of.append(_add(gangs, *row))
            continue
        if queue not in others:
            nobody = (_number(users, ""), _number(namespaces, ""))
            others[queue] = _add(gangs, "", "", queue, *nobody, 0)
        gang_of.append(others[queue])
    tasks, task_of = _tasks(document.tasks, gang_of, gangs)
    # all that is passed on is named here: what is added to the document later is not
    return ClusterDocument(
        stamp=document.stamp,
        queues=list(queues),
        models=document.models,
        users=list(users),
        namespaces=list(namespaces),
        domains=document.domains,
        racks=document.racks,
        nodes=document.nodes,
        gangs=gangs,
        tasks=tasks,
        given=replace(document.given, task=[task_of[each] for each in document.given.task]),
        held=replace(document.held, gang=[gang_of[each] for each in document.held.gang]),
        unhealthy=document.unhealthy,
        utilisation=document.utilisation,
    )


def _number(numbers: dict[str, int], name: str) -> int:
    return numbers.setdefault(name, len(numbers))


def _add(gangs: GangColumns, *row: str | int) -> int:
    for column, value in zip(fields(gangs), row, strict=True):
        getattr(gangs, column.name).append(value)
    return len(gangs.name) - 1


def _tasks(
    old: TaskColumns, gang_of: Sequence[int], gangs: GangColumns
) -> tuple[TaskColumns, list[int]]:
    """The tasks of gangs that have a name; one for each that has none."""
    tasks, task_of = TaskColumns([], [], [], []), list[int]()
    others: dict[int, int] = {}
    for number, name in enumerate(old.name):
        gang = gang_of[old.gang[number]]
        if gang in others:
            task_of.append(others[gang])
            continue
        is_known = bool(gangs.name[gang])
        if not is_known:
            others[gang] = len(tasks.name)
        task_of.append(len(tasks.name))
        tasks.name.append(name if is_known else "")
        tasks.gang.append(gang)
        tasks.started.append(old.started[number] if is_known else -1)
        tasks.leaving.append(old.leaving[number] if is_known else 0)
    return tasks, task_of


def _own_nodes(document: ClusterDocument) -> ClusterDocument:
    """Only nodes on which gangs with a name are, numbered anew."""
    nodes, given, held = document.nodes, document.given, document.held
    firsts_before = nodes.first
    node_of = [at for at, count in enumerate(nodes.gpus) for _ in range(count)]
    own = {
        node_of[gpu]
        for gpu, task in zip(given.gpu, given.task, strict=True)
        if document.tasks.name[task]
    }
    kept = sorted(own)
    firsts, gpus = dict[int, int](), 0
    for node in kept:
        firsts[node], gpus = gpus, gpus + nodes.gpus[node]

    def moved(gpu: int) -> int:
        node = node_of[gpu]
        return firsts[node] + gpu - firsts_before[node]

    of_given = [row for row, gpu in enumerate(given.gpu) if node_of[gpu] in own]
    of_held = [row for row, gpu in enumerate(held.gpu) if node_of[gpu] in own]
    given, held, nodes = picked(given, of_given), picked(held, of_held), picked(nodes, kept)
    racks, models = sorted(set(nodes.rack)), sorted(set(nodes.model))
    domains = sorted(set(nodes.domain) - {-1})
    kept_gpus = [gpu for gpu, node in enumerate(node_of) if node in own]
    return replace(
        document,
        racks=picked(document.racks, racks),
        models=[document.models[each] for each in models],
        domains=[document.domains[each] for each in domains],
        nodes=replace(
            nodes,
            rack=[racks.index(each) for each in nodes.rack],
            model=[models.index(each) for each in nodes.model],
            domain=[domains.index(each) if each >= 0 else -1 for each in nodes.domain],
            first=list(firsts.values()),
        ),
        given=replace(given, gpu=[moved(each) for each in given.gpu]),
        held=replace(held, gpu=[moved(each) for each in held.gpu]),
        unhealthy=[moved(gpu) for gpu in document.unhealthy if node_of[gpu] in own],
        utilisation=[document.utilisation[gpu] for gpu in kept_gpus if document.utilisation],
    )


def picked(columns: Columns, rows: Sequence[int]) -> Columns:
    """Only these rows of all columns."""
    names = [each.name for each in fields(columns)]
    return replace(columns, **{n: [getattr(columns, n)[row] for row in rows] for n in names})
