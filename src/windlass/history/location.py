"""The location of a history: a file, or the URL of a database, whose secrets are never shown."""

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
    """A history cannot be used; the message says why, and contains no secret."""


def url_of(text: str) -> URL:
    """Return the URL that a user wrote; a text without :// is a file name.

    HistoryError if it cannot be used.
    """
    if "://" not in text:
        return URL.create(SQLITE, database=text)
    try:
        url = make_url(text)
    except (ArgumentError, ValueError):
        raise HistoryError(f"the URL of the history cannot be read; {HINT}") from None
    if url.drivername not in _DRIVERS:
        driver = url.drivername.partition("+")[0]
        raise HistoryError(f"a history cannot lie in {driver}; {HINT}")
    if not url.database:
        raise HistoryError(f"the URL of the history names no database; {HINT}")
    return url.set(drivername=_DRIVERS[url.drivername])


def shown(url: URL) -> str:
    """Return the URL for output, without password and options; an option may be a password too."""
    if url.drivername == SQLITE:
        return url.database or ""
    return url.set(drivername="postgresql", query={}).render_as_string(hide_password=True)


def redacted_error(error: Exception, url: URL) -> str:
    """Return the message of a database error as one line, with the secrets of the URL redacted."""
    cause = error.orig if isinstance(error, DBAPIError) and error.orig is not None else error
    text = " ".join(str(cause).split()) or type(cause).__name__
    for secret in _secrets(url):
        text = text.replace(secret, "***")
    return one_line(text)


def _secrets(url: URL) -> list[str]:
    """Return the secrets of a URL, plain and percent-encoded, the longest first.

    The order matters: a secret may contain a shorter one.
    """
    secrets = [url.password or ""]
    for key in ("password", "sslpassword"):
        value = url.query.get(key, "")
        secrets += [value] if isinstance(value, str) else list(value)
    forms = {form for text in secrets if text for form in (text, quote(text), quote_plus(text))}
    return sorted(forms, key=len, reverse=True)
