"""What each queue has, at every level of the tree.

`held` is everything its tasks occupy, `firm` the part that others cannot take back. Charging a
queue charges all queues above it. Amounts are per dimension, see `model/queues.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import TypeAlias

from windlass.model.gpu_resources import is_gpu, unit_on
from windlass.model.gpus import Slice, charged
from windlass.model.jobs import Gang
from windlass.model.nodes import Node
from windlass.model.queues import CPU, GPU, MEMORY, Queue, of_model
from windlass.model.resources import Request

Charges: TypeAlias = tuple[tuple[str, int], ...]
"""Amounts per dimension that one task adds to its queue."""
Models: TypeAlias = tuple[tuple[str, int], ...]
"""Thousandths per GPU model."""
Due: TypeAlias = tuple[Gang, Charges]
"""What a task of a gang adds."""


class QueueAccounts:
    """Sums per queue and dimension."""

    __slots__ = ("_changes", "_paths", "_queues", "firm", "held", "loose", "stamps", "users")

    def __init__(self, queues: Mapping[str, Queue]) -> None:
        self._queues = queues
        self._paths: dict[str, tuple[str, ...]] = {}
        self.held: dict[str, Mapping[str, int]] = {}
        self.firm: dict[str, Mapping[str, int]] = {}
        self.users: dict[tuple[str, str], int] = {}
        """GPU thousandths per queue and user."""
        self.loose: dict[str, Mapping[int, int]] = {}
        """GPU thousandths that can be preempted, per queue of a gang and priority."""
        self.stamps: dict[str, int] = {}
        """Moves for a queue whenever it is charged; never the same twice."""
        self._changes = 0

    def path(self, queue: str) -> tuple[str, ...]:
        """The queue and all above it, without the root."""
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
                # sums are replaced, never changed: whoever remembers them needs no copy
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
        """Add or take away the amounts of many tasks, those of like gangs at once."""
        if len(dues) == 1:
            self.charge(*dues[0], sign)
            return
        sums: dict[object, tuple[Gang, dict[str, int]]] = {}
        for gang, charges in dues:
            has_gpu = bool(charges) and charges[0][0] == GPU
            like = (gang.queue, gang.user, gang.priority, gang.preemptible, gang.spared, has_gpu)
            total = sums.setdefault(like, (gang, {}))[1]
            for dimension, amount in charges:
                total[dimension] = total.get(dimension, 0) + amount
        for gang, total in sums.values():
            self.charge(gang, tuple(total.items()), sign)

    def saver(self) -> Callable[[], None]:
        """Remember everything as it is; the answer puts it back."""
        held, firm, loose = self.held.copy(), self.firm.copy(), self.loose.copy()
        users = self.users.copy()

        def put_back() -> None:
            self.held, self.firm, self.loose, self.users = held, firm, loose, users
            self._changes += 1
            self.stamps.update(dict.fromkeys(self.stamps, self._changes))

        return put_back

    def _climb(self, name: str) -> Iterable[str]:
        # a queue whose parent is not known, or that is its own ancestor, stands at the top
        seen: set[str] = set()
        while (queue := self._queues.get(name)) is not None and name not in seen:
            seen.add(name)
            yield name
            name = queue.parent


def charges_of(request: Request, slices: Sequence[Slice], node: Node | None) -> Charges:
    """What a task that was given these slices of a node adds to its queue, GPUs first."""
    return charges_per_model(request, models_of(request, slices, node))


@lru_cache(maxsize=1 << 12)
def charges_per_model(request: Request, models: Models) -> Charges:
    """What a task that was given so many thousandths of GPU models adds to its queue."""
    charges = [(of_model(model), milli) for model, milli in models]
    if models:
        charges.insert(0, (GPU, sum([milli for _, milli in models])))
    if request.cpu_milli:
        charges.append((CPU, request.cpu_milli))
    if request.memory_mib:
        charges.append((MEMORY, request.memory_mib))
    return tuple(charges)


def charged_milli(request: Request, slices: Sequence[Slice], node: Node | None) -> int:
    """The thousandths of GPU that a task with these slices of a node is charged for."""
    return sum([milli for _, milli in models_of(request, slices, node)])


def models_of(request: Request, slices: Sequence[Slice], node: Node | None) -> Models:
    """Thousandths per GPU model that a task with these slices of a node is charged for."""
    models = _models_of_slices(slices, node)
    return with_extra_gpus(models, request, node) if request.extra else models


def with_extra_gpus(models: Models, request: Request, node: Node | None) -> Models:
    """The same with the GPUs among the extra resources of a request, on that node."""
    gpus = [each for each in request.extra if is_gpu(each[0])]
    if not gpus:
        return models
    sums = dict(models)
    for name, amount in gpus:
        unit = unit_on(node, name)
        sums[unit.model] = sums.get(unit.model, 0) + amount * unit.milli
    return tuple(sorted(sums.items()))


def _models_of_slices(slices: Sequence[Slice], node: Node | None) -> Models:
    """Thousandths per GPU model; without its node a task's models are not known."""
    if len(slices) == 1 and node is not None and slices[0].device < len(node.gpus):
        gpu = node.gpus[slices[0].device]
        return ((gpu.model, charged(slices[0].milli, gpu.charged_milli)),)
    sums: dict[str, int] = {}
    for each in slices:
        model, milli = "", each.milli
        if node is not None and each.device < len(node.gpus):
            gpu = node.gpus[each.device]
            model, milli = gpu.model, charged(milli, gpu.charged_milli)
        sums[model] = sums.get(model, 0) + milli
    return tuple(sorted(sums.items()))
