"""Where a history lies: a file, or a database by its URL, of which no secret is ever shown."""

from __future__ import annotations

from urllib.parse import quote, quote_plus

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError

from windlass.model.errors import WindlassError, one_line

SQLITE = "sqlite"
POSTGRESQL = "postgresql+psycopg"
_DRIVERS = {
    SQLITE: SQLITE,
    "postgres": POSTGRESQL,
    "postgresql": POSTGRESQL,
    POSTGRESQL: POSTGRESQL,
}
HINT = "write a file name, sqlite:///FILE or postgresql://USER:PASSWORD@HOST/DATABASE"


class HistoryError(WindlassError):
    """A history cannot be used; the sentence says why, and has no secret in it."""


def url_of(text: str) -> URL:
    """The URL that a user wrote; a bare name is a file."""
    if "://" not in text:
        return URL.create(SQLITE, database=text)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise HistoryError(f"the URL of the history cannot be read; {HINT}") from None
    if url.drivername not in _DRIVERS:
        found = url.drivername.partition("+")[0]
        raise HistoryError(f"a history cannot lie in {found}; {HINT}")
    if not url.database:
        raise HistoryError(f"the URL of the history names no database; {HINT}")
    return url.set(drivername=_DRIVERS[url.drivername])


def shown(url: URL) -> str:
    """The URL as it may be printed: no password, and no options, for one of them could be one."""
    if url.drivername == SQLITE:
        return url.database or ""
    return url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)


def told(error: Exception, url: URL) -> str:
    """What a database said, in a line, without secrets."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = " ".join(str(cause).split()) or type(cause).__name__
    for secret in _secrets(url):
        text = text.replace(secret, "***")
    return one_line(text)


def _secrets(url: URL) -> list[str]:
    found = [url.password or ""]
    for key in ("password", "sslpassword"):
        value = url.query.get(key, "")
        found += [value] if isinstance(value, str) else list(value)
    spelt = {form for each in found if each for form in (each, quote(each), quote_plus(each))}
    return sorted(spelt, key=len, reverse=True)
