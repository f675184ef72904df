"""The tables of a history, and the migrations from one version of them to the next.

A migration is a function. All missing ones run in one transaction, so that a crash leaves the old
version. A released migration must never change; a new one is appended.
"""

from __future__ import annotations

from collections.abc import Callable

from sqlalchemy import (
    BigInteger,
    Column,
    Connection,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    inspect,
    text,
)

from windlass.history.location import HistoryError

_all = MetaData()
STRETCHES = Table(
    "windlass_stretches",
    _all,
    Column("writer", String(253), primary_key=True),
    Column("first", BigInteger, primary_key=True),
    Column("began", BigInteger),
    Column("until", BigInteger),
    Column("cycles", BigInteger),
    Column("bytes", BigInteger),
    Column("release", String(64)),
    Column("body", LargeBinary),
    Column("lost", BigInteger),
)
CYCLES = Table(
    "windlass_cycles",
    _all,
    Column("writer", String(253), primary_key=True),
    Column("number", BigInteger, primary_key=True),
    Column("first", BigInteger),
    Column("at", BigInteger),
    Column("binds", Integer),
    Column("evictions", Integer),
    Column("waiting", Integer),
    Column("body", LargeBinary),
)
_VERSION = "windlass_history"
"""The table with one row: the version of the other tables."""
LOCK = 0x77696E646C617373
"""The key of the PostgreSQL advisory lock that serialises migrations of several processes."""


def is_there(connection: Connection) -> bool:
    """Return whether the database has a history."""
    return inspect(connection).has_table(_VERSION)


def migrate(connection: Connection, upto: int | None = None) -> int:
    """Migrate the tables to the version `upto`, by default the newest; return their version."""
    if connection.dialect.name == "postgresql":
        connection.execute(text(f"SELECT pg_advisory_xact_lock({LOCK})"))
    if not is_there(connection):
        connection.execute(text(f"CREATE TABLE {_VERSION} (version INTEGER NOT NULL)"))
        connection.execute(text(f"INSERT INTO {_VERSION} VALUES (0)"))
    current = _version(connection)
    target = len(MIGRATIONS) if upto is None else upto
    for migration in MIGRATIONS[current:target]:
        migration(connection)
    if current < target:
        connection.execute(text(f"UPDATE {_VERSION} SET version = {target}"))
    return max(current, target)


def is_newest(connection: Connection) -> bool:
    """Return whether the tables have the newest version; HistoryError if they have a newer one."""
    return _version(connection) == len(MIGRATIONS)


def _version(connection: Connection) -> int:
    version = connection.execute(text(f"SELECT version FROM {_VERSION}")).scalar_one()
    if version > len(MIGRATIONS):
        raise HistoryError(
            f"the history was written by a newer Windlass (its tables have version {version}, this "
            f"one knows {len(MIGRATIONS)}); upgrade, or name another database"
        )
    return version


def _stretches_and_cycles(connection: Connection) -> None:
    blob = "BYTEA" if connection.dialect.name == "postgresql" else "BLOB"
    for statement in (
        "CREATE TABLE windlass_stretches (writer VARCHAR(253), first BIGINT, began BIGINT NOT NULL,"
        " until BIGINT NOT NULL, cycles BIGINT NOT NULL, bytes BIGINT NOT NULL,"
        f" release VARCHAR(64) NOT NULL, body {blob} NOT NULL, PRIMARY KEY (writer, first))",
        "CREATE TABLE windlass_cycles (writer VARCHAR(253), number BIGINT, first BIGINT NOT NULL,"
        " at BIGINT NOT NULL, binds INTEGER NOT NULL, evictions INTEGER NOT NULL,"
        f" waiting INTEGER NOT NULL, body {blob} NOT NULL, PRIMARY KEY (writer, number))",
        "CREATE INDEX windlass_cycles_at ON windlass_cycles (at)",
    ):
        connection.execute(text(statement))


def _lost_cycles(connection: Connection) -> None:
    """Add the number of cycles before a stretch that could not be written in time."""
    connection.execute(
        text("ALTER TABLE windlass_stretches ADD COLUMN lost BIGINT NOT NULL DEFAULT 0")
    )


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (_stretches_and_cycles, _lost_cycles)
