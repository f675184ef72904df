"""Their trees of podsets as our groups, which have one level.

A podset becomes a group, named by its path. Where a node of the tree needs only some of its
children, those with running tasks and then the first count, and the others are elastic. A node that
keeps its podsets close to each other becomes one group, if every task below it is needed: then
nothing else is lost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from windlass.model.jobs import Domain, Group
from windlass_lab.conformance import schema
from windlass_lab.conformance.devices import Untranslatable

ACTIVE = (schema.TaskStatus.RUNNING, schema.TaskStatus.BINDING)


@dataclass(frozen=True, slots=True)
class PodsetGroups:
    """The groups of a gang, and for each podset the group its tasks belong to."""

    groups: tuple[Group, ...]
    group_of: Mapping[str, str]

    def of(self, task: schema.ForeignTask) -> str:
        """Return the group of a task; a task without a podset belongs to the first one."""
        if task.subgroup is None:
            return next(iter(self.group_of.values()), "")
        if task.subgroup not in self.group_of:
            raise Untranslatable(f'task "{task.name}" is of a sub-group that its gang lacks')
        return self.group_of[task.subgroup]


def parts_of(job: schema.ForeignJob) -> PodsetGroups:
    """Return the groups of a job's gang."""
    tasks = Counter(task.subgroup or "" for task in job.tasks)
    active = Counter(task.subgroup or "" for task in job.tasks if task.state in ACTIVE)
    groups: list[Group] = []
    group_of: dict[str, str] = {}
    for group, podsets in _flattened(job.gang, "", _Tasks(tasks, active), is_needed=True):
        groups.append(group)
        group_of |= dict.fromkeys(podsets, group.name)
    return PodsetGroups(tuple(groups) or (Group(),), group_of or {"": ""})


def domain_of(closeness: schema.Closeness | None) -> Domain | None:
    """Return the required domain, else the preferred one; None if there is neither."""
    if closeness is None:
        return None
    level = closeness.required or closeness.preferred
    return Domain(closeness.topology, level, bool(closeness.required)) if level else None


@dataclass(frozen=True, slots=True)
class _Tasks:
    """The number of tasks of each podset, and the number of running ones."""

    all: Counter[str]
    active: Counter[str]

    def run_below(self, part: schema.Podset | schema.Tree) -> bool:
        return any(self.active[each.name] for each in _podsets(part))


def _flattened(
    tree: schema.Tree, path: str, tasks: _Tasks, is_needed: bool
) -> Iterator[tuple[Group, Sequence[str]]]:
    children = [*tree.podsets, *tree.groups]
    order = sorted(range(len(children)), key=lambda at: not tasks.run_below(children[at]))
    most = len(children) if tree.min_subgroups is None else tree.min_subgroups
    needed = set(order[:most]) if is_needed else set[int]()
    for at, child in enumerate(children):
        name = f"{path}/{child.name}" if path else child.name
        if isinstance(child, schema.Podset):
            minimum = child.min_available if at in needed else 0
            yield Group(name, minimum, domain_of(child.topology)), [child.name]
        elif _is_one(child, tasks):
            below = _podsets(child)
            minimum = sum(each.min_available for each in below) if at in needed else 0
            group = Group(name, minimum, domain_of(child.topology))
            yield group, [each.name for each in below]
        else:
            yield from _flattened(child, name, tasks, at in needed)


def _is_one(tree: schema.Tree, tasks: _Tasks) -> bool:
    """Return whether a tree keeps its podsets together, needs all of them, and these need
    no more."""
    return (
        domain_of(tree.topology) is not None
        and not tree.groups
        and tree.min_subgroups is None
        and all(
            each.min_available == tasks.all[each.name]
            and (each.topology is None or each.min_available == 1)
            for each in tree.podsets
        )
    )


def _podsets(part: schema.Podset | schema.Tree) -> list[schema.Podset]:
    if isinstance(part, schema.Podset):
        return [part]
    return [*part.podsets, *(each for group in part.groups for each in _podsets(group))]
