"""The thin server around the review: load what it takes to decide, decide, answer."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from itertools import islice

import msgspec
from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from windlass.admission import review
from windlass.admission.creators import path_of
from windlass.admission.review import AdmissionRequest, Rules
from windlass.crds.queue_access import Choice
from windlass.workloads.objects.annotations import CREATOR, QUEUE, mark
from windlass.workloads.objects.wire import ObjectMeta, OwnerRef

MOST_REMEMBERED = 10_000
"""Owners whose creator is remembered: a job of a thousand pods is read once."""


@dataclass(slots=True)
class Desk:
    """Answers reviews."""

    rules: Rules
    choose: Callable[[str, str], Choice | None]
    """The queue for who asks for one (or none), in a namespace; None: that is not known yet."""
    find: Callable[[str], Awaitable[ObjectMeta | None]]
    """The object at a path; None if it cannot be had."""
    _creators: dict[str, str] = field(default_factory=dict[str, str])

    async def answer(self, body: bytes) -> bytes:
        """The answer to a review."""
        request = review.read(body)
        creator = review.creator_of(request, self.rules)
        if isinstance(creator, OwnerRef):
            creator = await self._creator_of(creator, request.namespace)
        choice = self._choice(request)
        return review.response(request.uid, review.decide(request, creator, choice, self.rules))

    def _choice(self, request: AdmissionRequest) -> Choice | None:
        if not request.is_new_pod:
            return None
        return self.choose(mark(review.meta_of(request), QUEUE), request.namespace)

    async def _creator_of(self, owner: OwnerRef, namespace: str) -> str:
        """Who made an owner; nobody, if that was not noted or cannot be read."""
        if owner.uid in self._creators:
            return self._creators[owner.uid]
        path = path_of(owner, namespace)
        found = await self.find(path) if path else None
        if found is None or found.uid != owner.uid:
            return ""
        self._creators[owner.uid] = (found.annotations or {}).get(CREATOR, "")
        for uid in list(islice(self._creators, max(0, len(self._creators) - MOST_REMEMBERED))):
            del self._creators[uid]
        return self._creators.get(owner.uid, "")


def application(desk: Desk, trouble: Callable[[], str]) -> Starlette:
    """`trouble` says in a sentence why this process is not ready; empty if it is."""

    async def mutate(request: HttpRequest) -> Response:
        try:
            answer = await desk.answer(await request.body())
        except msgspec.DecodeError as error:
            return PlainTextResponse(f"this is no AdmissionReview: {error}\n", 400)
        return Response(answer, media_type="application/json")

    async def healthz(_request: HttpRequest) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: HttpRequest) -> Response:
        found = trouble()
        return PlainTextResponse(f"{found or 'ok'}\n", 503 if found else 200)

    return Starlette(
        routes=[
            Route("/mutate", mutate, methods=["POST"]),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ]
    )
