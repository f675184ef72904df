"""The errors of access and of requests to the API server, as one tree.

    NoAccess                  a WindlassError: the kubeconfig or its credentials cannot be used
    NotAllowed                our own guard refused a write
    ApiError                  a request that did not succeed
    ├── Unauthorized   401
    ├── Forbidden      403
    ├── NotFound       404
    ├── Conflict       409
    ├── ResourceExpired 410   the resourceVersion or the next page of the list is no longer kept
    ├── Invalid        400, 422
    ├── TooMany        429    also an eviction that a disruption budget forbids (see `causes`)
    ├── ServerFault    5xx    the request may still have been carried out
    ├── Garbled        0      an answer that is not JSON where JSON was expected
    └── Unanswered     0      no answer came; `sent` says whether it may have been carried out

Each of the 4xx errors above proves that a write was not carried out.
"""

from collections.abc import Mapping

import msgspec

from windlass.model.errors import WindlassError


class NoAccess(WindlassError):
    """There is no configured API server, or the credentials for it could not be read."""


class NotAllowed(Exception):
    """Our guard refused a write: this process no longer leads, or runs in shadow mode."""


class ApiError(Exception):
    """A request to the API server that did not succeed."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(f"{message} ({status} {reason})" if status else message)
        self.status = status
        self.reason = reason
        self.message = message
        self.causes: tuple[str, ...] = ()
        """The reasons in `details.causes` of the Status."""
        self.retry_after_s: float | None = None
        """Seconds that the server asks to wait before the next attempt; None if it does not."""


class Unauthorized(ApiError):
    """401: the server does not accept our credentials."""


class Forbidden(ApiError):
    """403: the server knows our identity, and we lack the right."""


class NotFound(ApiError):
    """404: there is no such object, or no such kind of object."""


class Conflict(ApiError):
    """409: the object exists already, or its version or uid is not the expected one."""


class ResourceExpired(ApiError):
    """410: the requested version is no longer kept; list again."""


class Invalid(ApiError):
    """400 or 422: the server does not accept the content of the request."""


class TooMany(ApiError):
    """429: the server is busy; `retry_after_s` is the wait it asks for, if it names one."""


class ServerFault(ApiError):
    """5xx: the server failed, before or after it carried out the request."""


class Garbled(ApiError):
    """The answer is not JSON; nothing that follows it on the same stream can be trusted."""

    def __init__(self, message: str) -> None:
        super().__init__(0, "Garbled", message)


class Unanswered(ApiError):
    """No answer came. `sent` is false only if the request certainly never left this process."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(0, "Unanswered", message)
        self.sent = sent


def from_answer(status: int, headers: Mapping[str, str], body: bytes) -> ApiError:
    """Return the error for an answer with this status, these headers and this body."""
    status_object = _read_status(body)
    error = _error_of(
        status, status_object.reason, status_object.message or _first_words(status, headers, body)
    )
    error.causes = tuple(cause.reason for cause in status_object.details.causes)
    error.retry_after_s = _retry_after_s(headers, status_object)
    return error


def from_status(body: bytes) -> ApiError:
    """Return the error for a Status object inside a watch."""
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
    """Return the decoded Status; an empty one if the body is none, such as a page of a proxy."""
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
