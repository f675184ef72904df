"""A history in a database: stretches are added at one end and dropped whole at the other."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, delete, event, func, insert, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from windlass.history.location import SQLITE, HistoryError, shown, told, url_of
from windlass.history.record import (
    RecordedCycle,
    RecordError,
    StretchStart,
    from_bytes,
    start_from_bytes,
)
from windlass.history.tables import CYCLES, STRETCHES, is_newest, is_there, migrate

PAGE = 200
"""So many cycles are fetched at once."""
PATIENCE_S = 30
"""A statement that takes longer has failed."""


@dataclass(frozen=True, slots=True)
class Keep:
    """How much is kept; whatever is beyond it goes, the oldest stretch first."""

    bytes: int = 256 * 2**20
    seconds: int = 7 * 86400
    """Counted back from the newest cycle."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """A start and the cycles that followed it, without their contents."""

    writer: str
    first: int
    """The number of its first cycle; the numbers of one writer have no gap but where some were
    lost."""
    began: int
    until: int
    cycles: int
    bytes: int
    release: str
    """The version of Windlass that decided."""
    lost: int = 0
    """So many cycles before it could not be written in time."""

    def goes_on_from(self, before: Stretch) -> bool:
        """Is nothing missing between the two?"""
        return self.writer == before.writer and self.first == before.first + before.cycles


@dataclass(frozen=True, slots=True)
class CycleRow:
    """A cycle as it is written."""

    number: int
    first: int
    at: int
    binds: int
    evictions: int
    waiting: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Brief:
    """A recorded cycle in numbers."""

    writer: str
    number: int
    at: int
    binds: int
    evictions: int
    waiting: int


class HistoryStore:
    """One database."""

    def __init__(self, where: str, *, new: bool = True) -> None:
        """Open it to write, and make it if it is not there; or, if it is not new, only to read.

        HistoryError if it cannot be used.
        """
        self._url = url_of(where)
        self.where = shown(self._url)
        if not new and self._url.drivername == SQLITE and not os.path.isfile(self.where):
            raise HistoryError(f"there is no history in {self.where}; check the name")
        self._engine = _engine(self._url, _set_up if new else _set_up_to_read)

    def demand(self) -> bool:
        """Is it of this version? HistoryError if it is not there at all, or of a newer one."""
        with self._reading() as connection:
            if not is_there(connection):
                raise HistoryError(f"there is no history in {self.where}; check the name")
            return is_newest(connection)

    def prepare(self) -> None:
        """Bring the tables to this version."""
        with self._writing() as connection:
            migrate(connection)

    # -- writing

    def write(
        self, stretches: Sequence[tuple[Stretch, bytes | None]], cycles: Sequence[CycleRow],
        keep: Keep,
    ) -> None:  # fmt: skip
        """Add these and drop what is beyond the bounds, all or nothing; it may be repeated.

        A stretch without its start is there already, and has become longer.
        """
        writer = stretches[-1][0].writer
        with self._writing() as connection:
            if cycles:
                of_us, later = CYCLES.c.writer == writer, CYCLES.c.number >= cycles[0].number
                connection.execute(delete(CYCLES).where(of_us, later))
                rows = [asdict(each) | {"writer": writer} for each in cycles]
                connection.execute(insert(CYCLES), rows)
            for stretch, start in stretches:
                _put(connection, stretch, start)
            _trim(connection, keep, stretches[-1][0])

    # -- reading

    def stretches(self) -> list[Stretch]:
        """All that is kept, the oldest first."""
        columns = [each for each in STRETCHES.c if each.name != "body"]
        order = (STRETCHES.c.began, STRETCHES.c.writer, STRETCHES.c.first)
        with self._reading() as connection:
            rows = connection.execute(select(*columns).order_by(*order)).mappings().all()
        return [Stretch(**row) for row in rows]

    def start(self, stretch: Stretch) -> StretchStart:
        """Where a stretch begins."""
        query = select(STRETCHES.c.body).where(
            STRETCHES.c.writer == stretch.writer, STRETCHES.c.first == stretch.first
        )
        with self._reading() as connection:
            body = connection.execute(query).scalar()
        if body is None:
            raise HistoryError(f"{self.where}: the stretch was dropped meanwhile; try again")
        with self._understood():
            return start_from_bytes(body)

    def cycles(self, stretch: Stretch) -> Iterator[RecordedCycle]:
        """Its cycles, in order."""
        number, end = stretch.first, stretch.first + stretch.cycles
        while number < end:
            for row in self._rows(stretch.writer, number, min(number + PAGE, end)):
                with self._understood():
                    cycle = from_bytes(row.number, row.at, row.body)
                yield cycle
            number += PAGE

    def from_on(self, since: int, most: int) -> list[Brief]:
        """The first cycles from a second on, in numbers; of their last second all or none."""
        order = (CYCLES.c.at, CYCLES.c.writer, CYCLES.c.number)
        return self._briefs(CYCLES.c.at >= since, order, most)

    def up_to(self, until: int, most: int) -> list[Brief]:
        """The last cycles up to a second, in numbers; of their first second all or none."""
        order = (CYCLES.c.at.desc(), CYCLES.c.writer.desc(), CYCLES.c.number.desc())
        return self._briefs(CYCLES.c.at <= until, order, most)[::-1]

    def _briefs(self, where: Any, order: Sequence[Any], most: int) -> list[Brief]:
        c = CYCLES.c
        query = select(c.writer, c.number, c.at, c.binds, c.evictions, c.waiting)
        with self._reading() as connection:
            query = query.where(where).order_by(*order).limit(most + 1)
            found = [Brief(*row) for row in connection.execute(query)]
        if len(found) <= most:
            return found
        # whoever goes on from here names a second: so none is cut in two, unless it fills all
        whole = [each for each in found if each.at != found[-1].at]
        return whole or found[:most]

    def cycle(self, writer: str, number: int) -> RecordedCycle | None:
        """One cycle in full; None if it is not kept."""
        found = self._rows(writer, number, number + 1)
        with self._understood():
            return from_bytes(number, found[0].at, found[0].body) if found else None

    def _rows(self, writer: str, first: int, end: int) -> Sequence[Any]:
        c = CYCLES.c
        query = select(c.number, c.at, c.body).where(c.writer == writer)
        query = query.where(c.number >= first, c.number < end).order_by(c.number)
        with self._reading() as connection:
            return connection.execute(query).all()

    @contextmanager
    def _understood(self) -> Generator[None, None, None]:
        try:
            yield
        except RecordError as error:
            what = f"{error}; it was damaged, or is of another version"
            raise HistoryError(f"{self.where}: {what}") from None

    @contextmanager
    def _writing(self) -> Generator[Connection, None, None]:
        with self._named(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Generator[Connection, None, None]:
        with self._named(), self._engine.connect().execution_options(reads=True) as connection:
            yield connection

    @contextmanager
    def _named(self) -> Generator[None, None, None]:
        """What a database complains about becomes a sentence that names it."""
        try:
            yield
        except SQLAlchemyError as error:
            raise HistoryError(f"{self.where}: {told(error, self._url)}") from None


_HABITS: dict[str, Any] = {"hide_parameters": True, "poolclass": NullPool}
"""Nothing recorded in an error, and nobody connected between two transactions."""


def _engine(url: URL, set_up: Callable[[Any, Any], None]) -> Engine:
    if url.drivername == SQLITE:
        # no transaction of the driver's own: it would commit before every CREATE TABLE
        arguments = {"timeout": PATIENCE_S, "isolation_level": None}
        engine = create_engine(url, connect_args=arguments, **_HABITS)
        event.listen(engine, "connect", set_up)
        event.listen(engine, "begin", _begin)
        return engine
    patience = {"connect_timeout": 10, "options": f"-c statement_timeout={PATIENCE_S * 1000}"}
    given = {name: value for name, value in patience.items() if name not in url.query}
    return create_engine(url, connect_args=given, **_HABITS)


def _set_up(connection: Any, _record: Any) -> None:
    # readers and the writer do not wait for each other, and a crash loses the last moments at most
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _set_up_to_read(connection: Any, _record: Any) -> None:
    # a file that was named by mistake is somebody else's: not a byte of it is changed
    connection.execute("PRAGMA query_only=ON")


def _begin(connection: Connection) -> None:
    reads = connection.get_execution_options().get("reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _put(connection: Connection, stretch: Stretch, start: bytes | None) -> None:
    row = asdict(stretch)
    this = (STRETCHES.c.writer == stretch.writer, STRETCHES.c.first == stretch.first)
    if start is None:
        connection.execute(STRETCHES.update().where(*this).values(row))
    else:
        connection.execute(delete(STRETCHES).where(*this))
        connection.execute(insert(STRETCHES), [row | {"body": start}])


def _trim(connection: Connection, keep: Keep, newest: Stretch) -> None:
    """Whole stretches, the oldest first; the one that is being written stays."""
    c = STRETCHES.c
    query = select(c.writer, c.first, c.until, c.bytes).order_by(c.until, c.writer, c.first)
    rows = connection.execute(query).all()
    beyond = sum(row.bytes for row in rows) - keep.bytes
    too_old = connection.execute(select(func.max(c.until))).scalar_one() - keep.seconds
    for row in rows:
        if (beyond <= 0 and row.until >= too_old) or (row.writer, row.first) == (
            newest.writer,
            newest.first,
        ):
            continue
        beyond -= row.bytes
        connection.execute(
            delete(CYCLES).where(CYCLES.c.writer == row.writer, CYCLES.c.first == row.first)
        )
        connection.execute(delete(STRETCHES).where(c.writer == row.writer, c.first == row.first))
