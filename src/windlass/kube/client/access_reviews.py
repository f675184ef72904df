"""Authenticate and authorize viewers of the dashboard by reviews of the API server.

Reviews are posted, but the API server stores nothing: they are queries. So the session needs no
guard, and a replica that does not lead may post them as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.kube.client.client import Api
from windlass.kube.client.errors import ApiError
from windlass.model.viewers import ReviewUnavailable, Right, Viewer

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _ReviewedUser(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _TokenStatus(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _ReviewedUser = _ReviewedUser()
    audiences: tuple[str, ...] = ()


class _AccessStatus(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _TokenReview(msgspec.Struct, frozen=True):
    status: _TokenStatus = _TokenStatus()


class _AccessReview(msgspec.Struct, frozen=True):
    status: _AccessStatus = _AccessStatus()


_token_review = msgspec.json.Decoder(_TokenReview)
_access_review = msgspec.json.Decoder(_AccessReview)


class AccessReviews:
    """Authentication and authorization by the API server.

    A token must be issued for one of `audiences`; if there are none, for the API server itself.
    """

    def __init__(self, api: Api, audiences: Sequence[str] = ()) -> None:
        self._api, self._audiences = api, tuple(audiences)

    async def viewer(self, token: str) -> Viewer | None:
        """Return the user of a token; None if it is forged, expired, or for another audience.

        Raises `ReviewUnavailable` if the API server does not answer.
        """
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = self._audiences
        status = _token_review.decode(await self._post(TOKENS, "TokenReview", spec)).status
        if not status.authenticated or not status.user.username:
            return None
        # A server that does not support audiences returns none: it has checked the token for
        # itself, and not for us.
        if self._audiences and not set(self._audiences) & set(status.audiences):
            return None
        user = status.user
        extra = tuple(sorted(user.extra.items()))
        return Viewer(user.username, user.uid, user.groups, extra)

    async def may(self, viewer: Viewer, right: Right) -> bool:
        """Return whether the viewer has the right; raise `ReviewUnavailable` without an answer."""
        attributes = {
            "verb": right.verb,
            "group": right.group,
            "resource": right.resource,
            "namespace": right.namespace,
            "name": right.name,
        }
        spec = {
            "user": viewer.name,
            "uid": viewer.uid,
            "groups": viewer.groups,
            "extra": dict(viewer.extra),
            "resourceAttributes": {key: value for key, value in attributes.items() if value},
        }
        review = _access_review.decode(await self._post(ACCESS, "SubjectAccessReview", spec))
        return review.status.allowed and not review.status.denied

    async def _post(self, path: str, kind: str, spec: dict[str, Any]) -> bytes:
        group = path.rpartition("/")[0].removeprefix("/apis/")
        try:
            return await self._api.post(path, {"apiVersion": group, "kind": kind, "spec": spec})
        except ApiError as error:
            raise ReviewUnavailable(f"the API server cannot be asked: {error.message}") from None
