"""A history in a database: new stretches are appended, and the oldest are dropped whole."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, delete, event, func, insert, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.pool import NullPool

from windlass.history.location import SQLITE, HistoryError, redacted_error, shown, url_of
from windlass.history.record import (
    RecordedCycle,
    RecordError,
    StretchStart,
    from_bytes,
    start_from_bytes,
)
from windlass.history.tables import CYCLES, STRETCHES, is_newest, is_there, migrate

PAGE = 200
"""The number of cycles per query."""
PATIENCE_S = 30
"""The time limit of a statement."""


@dataclass(frozen=True, slots=True)
class Keep:
    """The bounds of the ring; beyond them the oldest stretches are dropped."""

    bytes: int = 256 * 2**20
    seconds: int = 7 * 86400
    """The age of a stretch, before the newest cycle."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """The summary of a stretch."""

    writer: str
    """The process that recorded it."""
    first: int
    """The number of its first cycle. The cycles of one writer are numbered without gaps, except
    where some were lost."""
    began: int
    until: int
    cycles: int
    bytes: int
    release: str
    """The version of Windlass that made the plans."""
    lost: int = 0
    """The number of cycles before it that could not be written in time."""

    def goes_on_from(self, before: Stretch) -> bool:
        """Return whether no cycle is missing between two stretches of the same writer."""
        return self.writer == before.writer and self.first == before.first + before.cycles


@dataclass(frozen=True, slots=True)
class CycleRow:
    """A cycle as a row of its table."""

    number: int
    first: int
    at: int
    binds: int
    evictions: int
    waiting: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Brief:
    """The figures of a recorded cycle."""

    writer: str
    number: int
    at: int
    binds: int
    evictions: int
    waiting: int


class HistoryStore:
    """A database with a history."""

    def __init__(self, where: str, *, new: bool = True) -> None:
        """Open a database to write, and create it if needed; with new=False, only to read.

        HistoryError if it cannot be used.
        """
        self._url = url_of(where)
        self.where = shown(self._url)
        """The location for messages, without secrets."""
        if not new and self._url.drivername == SQLITE and not os.path.isfile(self.where):
            raise HistoryError(f"there is no history in {self.where}; check the name")
        self._engine = _engine(self._url, _set_up if new else _set_up_to_read)

    def demand(self) -> bool:
        """Return whether the tables have the newest version.

        HistoryError if there is no history, or one of a newer Windlass.
        """
        with self._reading() as connection:
            if not is_there(connection):
                raise HistoryError(f"there is no history in {self.where}; check the name")
            return is_newest(connection)

    def prepare(self) -> None:
        """Migrate the tables to the newest version."""
        with self._writing() as connection:
            migrate(connection)

    # -- writing

    def write(
        self, stretches: Sequence[tuple[Stretch, bytes | None]], cycles: Sequence[CycleRow],
        keep: Keep,
    ) -> None:  # fmt: skip
        """Write stretches and cycles, and drop stretches beyond the bounds, in one transaction.

        The write may be repeated after a failure: it replaces cycles with the same numbers. A
        stretch without the bytes of its start exists already, and is updated.
        """
        writer = stretches[-1][0].writer
        with self._writing() as connection:
            if cycles:
                own, later = CYCLES.c.writer == writer, CYCLES.c.number >= cycles[0].number
                connection.execute(delete(CYCLES).where(own, later))
                rows = [asdict(cycle) | {"writer": writer} for cycle in cycles]
                connection.execute(insert(CYCLES), rows)
            for stretch, start in stretches:
                _put(connection, stretch, start)
            _trim(connection, keep, stretches[-1][0])

    # -- reading

    def stretches(self) -> list[Stretch]:
        """Return all stretches, the oldest first."""
        columns = [column for column in STRETCHES.c if column.name != "body"]
        order = (STRETCHES.c.began, STRETCHES.c.writer, STRETCHES.c.first)
        with self._reading() as connection:
            rows = connection.execute(select(*columns).order_by(*order)).mappings().all()
        return [Stretch(**row) for row in rows]

    def start(self, stretch: Stretch) -> StretchStart:
        """Return the start of a stretch; HistoryError if the ring has dropped it."""
        query = select(STRETCHES.c.body).where(
            STRETCHES.c.writer == stretch.writer, STRETCHES.c.first == stretch.first
        )
        with self._reading() as connection:
            body = connection.execute(query).scalar()
        if body is None:
            raise HistoryError(f"{self.where}: the stretch was dropped meanwhile; try again")
        with self._readable():
            return start_from_bytes(body)

    def cycles(self, stretch: Stretch) -> Iterator[RecordedCycle]:
        """Yield the cycles of a stretch, in order."""
        number, end = stretch.first, stretch.first + stretch.cycles
        while number < end:
            for row in self._rows(stretch.writer, number, min(number + PAGE, end)):
                with self._readable():
                    cycle = from_bytes(row.number, row.at, row.body)
                yield cycle
            number += PAGE

    def from_on(self, since: int, most: int) -> list[Brief]:
        """Return the figures of at most `most` cycles from a second on.

        The cycles of a second are returned all or not at all, so that the caller can continue with
        the next second; only a second with more than `most` cycles is cut.
        """
        order = (CYCLES.c.at, CYCLES.c.writer, CYCLES.c.number)
        return self._briefs(CYCLES.c.at >= since, order, most)

    def up_to(self, until: int, most: int) -> list[Brief]:
        """Return the figures of at most `most` cycles up to a second, like `from_on`."""
        order = (CYCLES.c.at.desc(), CYCLES.c.writer.desc(), CYCLES.c.number.desc())
        return self._briefs(CYCLES.c.at <= until, order, most)[::-1]

    def _briefs(self, where: Any, order: Sequence[Any], most: int) -> list[Brief]:
        c = CYCLES.c
        query = select(c.writer, c.number, c.at, c.binds, c.evictions, c.waiting)
        with self._reading() as connection:
            query = query.where(where).order_by(*order).limit(most + 1)
            briefs = [Brief(*row) for row in connection.execute(query)]
        if len(briefs) <= most:
            return briefs
        # One more than wanted was read: the last second may be incomplete, and is left out.
        whole = [brief for brief in briefs if brief.at != briefs[-1].at]
        return whole or briefs[:most]

    def cycle(self, writer: str, number: int) -> RecordedCycle | None:
        """Return one cycle; None if it is not in the history."""
        rows = self._rows(writer, number, number + 1)
        with self._readable():
            return from_bytes(number, rows[0].at, rows[0].body) if rows else None

    def _rows(self, writer: str, first: int, end: int) -> Sequence[Any]:
        c = CYCLES.c
        query = select(c.number, c.at, c.body).where(c.writer == writer)
        query = query.where(c.number >= first, c.number < end).order_by(c.number)
        with self._reading() as connection:
            return connection.execute(query).all()

    @contextmanager
    def _readable(self) -> Generator[None, None, None]:
        """Convert a RecordError to a HistoryError that names the database."""
        try:
            yield
        except RecordError as error:
            what = f"{error}; it was damaged, or is of another version"
            raise HistoryError(f"{self.where}: {what}") from None

    @contextmanager
    def _writing(self) -> Generator[Connection, None, None]:
        with self._converted_errors(), self._engine.begin() as connection:
            yield connection

    @contextmanager
    def _reading(self) -> Generator[Connection, None, None]:
        # `reads` lets SQLite begin without the lock of a writer (see `_begin`).
        with (
            self._converted_errors(),
            self._engine.connect().execution_options(reads=True) as connection,
        ):
            yield connection

    @contextmanager
    def _converted_errors(self) -> Generator[None, None, None]:
        """Convert an error of the database to a HistoryError that names it, without secrets."""
        try:
            yield
        except SQLAlchemyError as error:
            raise HistoryError(f"{self.where}: {redacted_error(error, self._url)}") from None


_ENGINE_OPTIONS: dict[str, Any] = {"hide_parameters": True, "poolclass": NullPool}
"""No recorded data in error messages, and no connection between two transactions."""


def _engine(url: URL, set_up: Callable[[Any, Any], None]) -> Engine:
    if url.drivername == SQLITE:
        # The driver must not manage transactions: it would commit before every CREATE TABLE.
        arguments = {"timeout": PATIENCE_S, "isolation_level": None}
        engine = create_engine(url, connect_args=arguments, **_ENGINE_OPTIONS)
        event.listen(engine, "connect", set_up)
        event.listen(engine, "begin", _begin)
        return engine
    patience = {"connect_timeout": 10, "options": f"-c statement_timeout={PATIENCE_S * 1000}"}
    given = {name: value for name, value in patience.items() if name not in url.query}
    return create_engine(url, connect_args=given, **_ENGINE_OPTIONS)


def _set_up(connection: Any, _record: Any) -> None:
    # With WAL, readers and the writer do not block each other; with NORMAL, a crash of the machine
    # may lose the last transactions, but does not corrupt the file.
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")


def _set_up_to_read(connection: Any, _record: Any) -> None:
    # A file that was named by mistake may belong to another program, and must not be changed.
    connection.execute("PRAGMA query_only=ON")


def _begin(connection: Connection) -> None:
    reads = connection.get_execution_options().get("reads")
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")


def _put(connection: Connection, stretch: Stretch, start: bytes | None) -> None:
    """Insert a stretch with its start, or update the existing one if there is no start."""
    row = asdict(stretch)
    this = (STRETCHES.c.writer == stretch.writer, STRETCHES.c.first == stretch.first)
    if start is None:
        connection.execute(STRETCHES.update().where(*this).values(row))
    else:
        connection.execute(delete(STRETCHES).where(*this))
        connection.execute(insert(STRETCHES), [row | {"body": start}])


def _trim(connection: Connection, keep: Keep, newest: Stretch) -> None:
    """Drop whole stretches beyond the bounds, the oldest first, except the one being written."""
    c = STRETCHES.c
    query = select(c.writer, c.first, c.until, c.bytes).order_by(c.until, c.writer, c.first)
    rows = connection.execute(query).all()
    beyond = sum(row.bytes for row in rows) - keep.bytes
    too_old = connection.execute(select(func.max(c.until))).scalar_one() - keep.seconds
    for row in rows:
        is_within = beyond <= 0 and row.until >= too_old
        is_newest_stretch = (row.writer, row.first) == (newest.writer, newest.first)
        if is_within or is_newest_stretch:
            continue
        beyond -= row.bytes
        connection.execute(
            delete(CYCLES).where(CYCLES.c.writer == row.writer, CYCLES.c.first == row.first)
        )
        connection.execute(delete(STRETCHES).where(c.writer == row.writer, c.first == row.first))
