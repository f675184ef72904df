"""What can go wrong between us and the API server, as one tree.

    NoAccess                  a WindlassError: the kubeconfig or its credentials cannot be used
    NotAllowed                our own guard refused a write
    ApiError                  a request that did not succeed
    ├── Unauthorized   401
    ├── Forbidden      403
    ├── NotFound       404
    ├── Conflict       409
    ├── Gone           410    the resourceVersion or the list's next page is no longer kept
    ├── Invalid        400, 422
    ├── TooMany        429    also an eviction that a disruption budget forbids (see `causes`)
    ├── ServerFault    5xx    the request may still have been carried out
    ├── Garbled        0      an answer that is no JSON where JSON was promised
    └── Unanswered     0      no answer came; `sent` tells whether it may have been carried out

Each of the 4xx above says for certain that a write was not carried out.
"""

from collections.abc import Mapping

import msgspec

from windlass.model.errors import WindlassError


class NoAccess(WindlassError):
    """No way to the API server was found, or the credentials for it could not be had."""


class NotAllowed(Exception):
    """The guard refused a write: not the leader any more, or only watching (shadow mode)."""


class ApiError(Exception):
    """A request to the API server that did not succeed."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({status} {reason})" if status else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.causes: tuple[str, ...] = ()
        self.retry_after_s: float | None = None


class Unauthorized(ApiError):
    """401: the server does not know who asks."""


class Forbidden(ApiError):
    """403: the server knows who asks and says no."""


class NotFound(ApiError):
    """404: no such object, or no such kind of object."""


class Conflict(ApiError):
    """409: the object exists already, or is not the version that was meant."""


class ResourceExpired(ApiError):
    """410: what was asked for is no longer kept; list again."""


class Invalid(ApiError):
    """400 or 422: the server does not accept what was sent."""


class TooMany(ApiError):
    """429: not now; `retry_after_s` says when, if the server did."""


class ServerFault(ApiError):
    """5xx: the server failed, before or after it did what was asked."""


class Garbled(ApiError):
    """What came is not JSON; nothing that follows it on the same stream can be trusted."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Garbled", message)


class Unanswered(ApiError):
    """No answer: `sent` is false only if the request certainly never left this process."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(0, "Unanswered", message)
        self.sent = sent


def from_answer(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error that an answer with this status, these headers and this body stands for."""
    found = _read_status(body)
    error = _error_of(status, found.reason, found.message or _first_words(status, headers, body))
    error.causes = tuple(cause.reason for cause in found.details.causes)
    error.retry_after_s = _retry_after_s(headers, found)
    return error


def from_status(body: bytes) -> ApiError:
    """Return the error that a Status object inside a watch stands for."""
    return from_answer(_read_status(body).code, {}, body)


class _Cause(msgspec.Struct, frozen=True):
    reason: str = ""


class _Details(msgspec.Struct, frozen=True, rename="camel"):
    causes: tuple[_Cause, ...] = ()
    retry_after_seconds: float = 0


class _Status(msgspec.Struct, frozen=True):
    code: int = 500
    reason: str = ""
    message: str = ""
    details: _Details = _Details()


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Unauthorized,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: ResourceExpired,
    422: Invalid,
    429: TooMany,
}

_decoder = msgspec.json.Decoder(_Status)


def _read_status(body: bytes) -> _Status:
    """Read a Status; a proxy's page, or nothing, reads as one that says nothing."""
    try:
        return _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return _Status()


def _error_of(status: int, reason: str, message: str) -> ApiError:
    kind = _BY_STATUS.get(status, ServerFault if status >= 500 else ApiError)
    return kind(status, reason or kind.__name__, message)


def _first_words(status: int, headers: Mapping[str, str], body: bytes) -> str:
    if "Location" in headers:
        return (
            f"The server sends us on to {headers['Location']}, but an API server answers itself:"
            " check the address in the kubeconfig"
        )
    words = " ".join(body[:400].decode(errors="replace").split())[:200]
    return f"The server answered {status} with {words!r}, not with a Status"


def _retry_after_s(headers: Mapping[str, str], status: _Status) -> float | None:
    try:
        return max(0.0, float(headers["Retry-After"]))
    except (KeyError, ValueError):  # absent, or a date, which API servers do not send
        return status.details.retry_after_seconds or None
