"""The amounts that each queue holds, at every level of the tree.

`held` is everything that the tasks of a queue occupy, `firm` the part that other queues cannot
reclaim. A charge to a queue also charges all queues above it. Amounts are per dimension, see
`model/queues.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from windlass.model.gpu.resources import is_gpu, unit_on
from windlass.model.gpus import Slice, charge_for
from windlass.model.jobs import Gang
from windlass.model.nodes import Node
from windlass.model.queues import CPU, GPU, MEMORY, Queue, of_model
from windlass.model.resources import Request

Charges: TypeAlias = tuple[tuple[str, int], ...]
"""The amounts per dimension that one task adds to its queue; GPUs, if any, come first."""
Models: TypeAlias = tuple[tuple[str, int], ...]
"""Thousandths by GPU model, in order of the models."""
Due: TypeAlias = tuple[Gang, Charges]
"""A gang and the charges of one of its tasks."""


class QueueAccounts:
    """Sums by queue and dimension. Only `charge`, `charge_all` and a saver write to it.

    The inner mappings are replaced at each change, never modified: a shallow copy saves everything.
    """

    __slots__ = ("_changes", "_paths", "_queues", "firm", "held", "loose", "stamps", "users")

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._queues = queues
        """The queues of the inventory. If a parent changes, new accounts are made."""
        self._paths: dict[str, tuple[str, ...]] = {}
        """A cache of `path`."""
        self.held: dict[str, Mapping[str, int]] = {}
        """By queue and dimension: the amounts of all occupying tasks in and below the queue."""
        self.firm: dict[str, Mapping[str, int]] = {}
        """The part of `held` that belongs to gangs for which `Gang.is_firm` holds."""
        self.users: dict[tuple[str, str], int] = {}
        """GPU thousandths by queue of the gang and user; queues above are not charged here."""
        self.loose: dict[str, Mapping[int, int]] = {}
        """Preemptible GPU thousandths by queue of the gang and priority."""
        self.stamps: dict[str, int] = {}
        """A version of each queue; a new, unique number at every charge. Caches compare it."""
        self._changes = 0

    def path(self, queue: str) -> tuple[str, ...]:
        """Return the queue and all above it, lowest first, without the root."""
        path = self._paths.get(queue)
        if path is None:
            path = self._paths[queue] = tuple(self._climb(queue))
        return path

    def charge(self, gang: Gang, charges: Charges, sign: int) -> None:
        """Add (sign 1) or take away (sign -1) the amounts of one task of a gang."""
        books = (self.held, self.firm) if gang.is_firm else (self.held,)
        self._changes += 1
        for name in self.path(gang.queue):
            self.stamps[name] = self._changes
            for book in books:
                # Replace the sums, do not modify them: savers hold the old ones.
                sums = dict(book[name]) if name in book else {}
                for dimension, amount in charges:
                    sums[dimension] = sums.get(dimension, 0) + sign * amount
                book[name] = sums
        if charges and charges[0][0] == GPU:
            milli, holder = sign * charges[0][1], (gang.queue, gang.user)
            self.users[holder] = self.users.get(holder, 0) + milli
            if gang.preemptible:
                loose = self.loose.get(gang.queue, {})
                more = loose.get(gang.priority, 0) + milli
                self.loose[gang.queue] = {**loose, gang.priority: more}

    def charge_all(self, dues: Sequence[Due], sign: int) -> None:
        """Add or take away the amounts of many tasks; sums those of similar gangs first."""
        if len(dues) == 1:
            self.charge(*dues[0], sign)
            return
        sums: dict[object, tuple[Gang, dict[str, int]]] = {}
        for gang, charges in dues:
            has_gpu = bool(charges) and charges[0][0] == GPU
            # everything of a gang that `charge` reads
            key = (gang.queue, gang.user, gang.priority, gang.preemptible, gang.spared, has_gpu)
            total = sums.setdefault(key, (gang, {}))[1]
            for dimension, amount in charges:
                total[dimension] = total.get(dimension, 0) + amount
        for gang, total in sums.values():
            self.charge(gang, tuple(total.items()), sign)

    def saver(self) -> Callable[[], None]:
        """Save all values; return a function that restores them."""
        held, firm, loose = self.held.copy(), self.firm.copy(), self.loose.copy()
        users = self.users.copy()

        def put_back() -> None:
            self.held, self.firm, self.loose, self.users = held, firm, loose, users
            # Stamps never return to an old number: caches filled since would look current.
            self._changes += 1
            self.stamps.update(dict.fromkeys(self.stamps, self._changes))

        return put_back

    def _climb(self, name: str) -> Iterable[str]:
        # A queue with an unknown parent counts as a top queue; a cycle ends where it began.
        seen: set[str] = set()
        while (queue := self._queues.get(name)) is not None and name not in seen:
            seen.add(name)
            yield name
            name = queue.parent


def charges_of(request: Request, slices: Sequence[Slice], node: Node | None) -> Charges:
    """Return the charges of a task that was given these slices of a node, GPUs first."""
    return charges_per_model(request, models_of(request, slices, node))


@lru_cache(maxsize=1 << 12)
def charges_per_model(request: Request, models: Models) -> Charges:
    """Return the charges of a task that was given these thousandths of GPU models."""
    charges = [(of_model(model), milli) for model, milli in models]
    if models:
        charges.insert(0, (GPU, sum([milli for _, milli in models])))
    if request.cpu_milli:
        charges.append((CPU, request.cpu_milli))
    if request.memory_mib:
        charges.append((MEMORY, request.memory_mib))
    return tuple(charges)


def charged_milli(request: Request, slices: Sequence[Slice], node: Node | None) -> int:
    """Return the thousandths of GPU that a task with these slices of a node is charged for."""
    return sum([milli for _, milli in models_of(request, slices, node)])


def models_of(request: Request, slices: Sequence[Slice], node: Node | None) -> Models:
    """Return the thousandths by GPU model that a task with these slices is charged for."""
    models = _models_of_slices(slices, node)
    return with_extra_gpus(models, request, node) if request.extra else models


def with_extra_gpus(models: Models, request: Request, node: Node | None) -> Models:
    """Return `models` plus the GPUs among the extra resources of a request on a node."""
    gpus = [extra for extra in request.extra if is_gpu(extra[0])]
    if not gpus:
        return models
    sums = dict(models)
    for name, amount in gpus:
        unit = unit_on(node, name)
        sums[unit.model] = sums.get(unit.model, 0) + amount * unit.milli
    return tuple(sorted(sums.items()))


def _models_of_slices(slices: Sequence[Slice], node: Node | None) -> Models:
    """Return thousandths by GPU model; the model is "" if the node or the device is unknown."""
    if len(slices) == 1 and node is not None and slices[0].device < len(node.gpus):
        gpu = node.gpus[slices[0].device]
        return ((gpu.model, charge_for(slices[0].milli, gpu.charged_milli)),)
    sums: dict[str, int] = {}
    for part in slices:
        model, milli = "", part.milli
        if node is not None and part.device < len(node.gpus):
            gpu = node.gpus[part.device]
            model, milli = gpu.model, charge_for(milli, gpu.charged_milli)
        sums[model] = sums.get(model, 0) + milli
    return tuple(sorted(sums.items()))
