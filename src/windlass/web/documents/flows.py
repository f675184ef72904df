"""Who borrows from whom.

Nobody writes down whose guarantee a GPU belongs to, so this is the even way to tell it: what a
queue has beyond its guarantee it has first of its siblings that leave theirs idle, each in
proportion to what it leaves; then of the siblings of its parent, and so on up to the top. There
what nobody is guaranteed comes first, as in the status of queues: lent is only what is not free.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from windlass.web.documents.tree import path_of
from windlass.web.schema.documents import Flow, QueueRow

NOBODY = ""


@dataclass(slots=True)
class _UnsettledFlows:
    """What is not settled yet below one queue, by queue."""

    needs: dict[str, int] = field(default_factory=dict[str, int])
    idle: dict[str, int] = field(default_factory=dict[str, int])

    def add(self, other: _UnsettledFlows) -> None:
        self.needs.update(other.needs)
        self.idle.update(other.idle)


def flows(rows: Sequence[QueueRow], free: int) -> list[Flow]:
    """Every pair of a lender and a borrower, and how much it is."""
    children: dict[str, list[QueueRow]] = {}
    names = {row.name for row in rows}
    for row in rows:
        children.setdefault(row.parent if row.parent in names else NOBODY, []).append(row)
    found: list[Flow] = []

    def settle(row: QueueRow) -> _UnsettledFlows:
        below = children.get(row.name, [])
        if not below:
            beyond = row.allocated - row.guarantee
            return _UnsettledFlows({row.name: max(0, beyond)}, {row.name: max(0, -beyond)})
        here = _UnsettledFlows()
        for each in below:
            here.add(settle(each))
        here.idle[row.name] = max(0, row.guarantee - sum(each.guarantee for each in below))
        found.extend(_matched(here, sum(here.idle.values())))
        return here

    top = _UnsettledFlows()
    for row in children.get(NOBODY, []):
        top.add(settle(row))
    found += _matched(top, max(0, sum(top.idle.values()) - free))
    found += [Flow(NOBODY, name, need) for name, need in top.needs.items() if need]
    return found


def _matched(here: _UnsettledFlows, most: int) -> list[Flow]:
    """Needs met from what is idle, in proportion on both sides; both become less by that."""
    total = min(sum(here.needs.values()), sum(here.idle.values()), most)
    found: list[Flow] = []
    for borrower, part in _split(total, here.needs):
        for lender, milli in _split(part, here.idle):
            found.append(Flow(lender, borrower, milli))
            here.needs[borrower] -= milli
            here.idle[lender] -= milli
    return found


def _split(total: int, amounts: Mapping[str, int]) -> list[tuple[str, int]]:
    """In proportion to the amounts, and to the last unit; nobody is given more than its amount."""
    found: list[tuple[str, int]] = []
    whole, so_far, given = max(1, sum(amounts.values())), 0, 0
    for name, amount in amounts.items():
        so_far += amount
        part = total * so_far // whole - given
        given += part
        if part:
            found.append((name, part))
    return found


def lent_by(rows: Sequence[QueueRow], flows: Sequence[Flow]) -> Mapping[str, int]:
    """What each queue, with all below it, lends to those that are not below it."""
    known = {row.name: row for row in rows}
    sums = dict.fromkeys(known, 0)
    for flow in flows:
        above = path_of(flow.borrower, known)
        for queue in path_of(flow.lender, known):
            if queue not in above:
                sums[queue] += flow.milli
    return sums
