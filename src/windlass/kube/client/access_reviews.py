"""Asks the API server who somebody is, and what they may do.

Reviews are posted, but nothing is kept of them: they are questions. So the session needs no guard,
and a replica that does not lead may ask as well.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from windlass.kube.client.client import Api
from windlass.kube.client.errors import ApiError
from windlass.model.viewers import CannotAsk, Right, Viewer

TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"


class _ReviewedUser(msgspec.Struct, frozen=True):
    username: str = ""
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: dict[str, tuple[str, ...]] = {}


class _CachedReview(msgspec.Struct, frozen=True):
    authenticated: bool = False
    user: _ReviewedUser = _ReviewedUser()
    audiences: tuple[str, ...] = ()


class _Allowed(msgspec.Struct, frozen=True):
    allowed: bool = False
    denied: bool = False


class _TokenReview(msgspec.Struct, frozen=True):
    status: _CachedReview = _CachedReview()


class _AccessReview(msgspec.Struct, frozen=True):
    status: _Allowed = _Allowed()


_known = msgspec.json.Decoder(_TokenReview)
_allowed = msgspec.json.Decoder(_AccessReview)


class Reviews:
    """The API server as a judge; without audiences, a token must be meant for the API server."""

    def __init__(self, api: Api, audiences: Sequence[str] = ()) -> None:
        self._api, self._audiences = api, tuple(audiences)

    async def viewer(self, token: str) -> Viewer | None:
        """Whose token it is; None if it is forged, expired, or meant for others."""
        spec: dict[str, Any] = {"token": token}
        if self._audiences:
            spec["audiences"] = self._audiences
        status = _known.decode(await self._post(TOKENS, "TokenReview", spec)).status
        if not status.authenticated or not status.user.username:
            return None
        # a server that does not know of audiences names none: then it meant itself, and not us
        if self._audiences and not set(self._audiences) & set(status.audiences):
            return None
        user = status.user
        extra = tuple(sorted(user.extra.items()))
        return Viewer(user.username, user.uid, user.groups, extra)

    async def may(self, viewer: Viewer, right: Right) -> bool:
        """Does the API server allow it to them?"""
        asked = {
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
            "resourceAttributes": {key: value for key, value in asked.items() if value},
        }
        found = _allowed.decode(await self._post(ACCESS, "SubjectAccessReview", spec))
        return found.status.allowed and not found.status.denied

    async def _post(self, path: str, kind: str, spec: dict[str, Any]) -> bytes:
        group = path.rpartition("/")[0].removeprefix("/apis/")
        try:
            return await self._api.post(path, {"apiVersion": group, "kind": kind, "spec": spec})
        except ApiError as error:
            raise CannotAsk(f"the API server cannot be asked: {error.message}") from None
