"""The web application of the webhook: load what a decision needs, decide, answer."""

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
from windlass.crds.queue_access import QueueChoice
from windlass.workloads.objects import CREATOR, QUEUE, ObjectMeta, OwnerRef, mark

MOST_REMEMBERED = 10_000
"""Owners whose creator is cached: so the owner of a thousand pods is read once."""


@dataclass(slots=True)
class AdmissionHandler:
    """Answers AdmissionReviews."""

    rules: Rules
    choose: Callable[[str, str], QueueChoice | None]
    """Returns the queue for a pod, given the queue it names (or "") and its namespace; None if the
    queues have not been read yet."""
    find: Callable[[str], Awaitable[ObjectMeta | None]]
    """Returns the metadata of the object at a path; None if it cannot be read."""
    _creators: dict[str, str] = field(default_factory=dict[str, str])
    """Creators by the uid of the owner, the oldest entry first. The creator of an object never
    changes, so entries do not expire."""

    async def answer(self, body: bytes) -> bytes:
        """Return the answer to a review; raises `msgspec.DecodeError` if it is none."""
        request = review.read(body)
        creator = review.creator_of(request, self.rules)
        if isinstance(creator, OwnerRef):
            creator = await self._creator_of(creator, request.namespace)
        choice = self._choice(request)
        return review.response(request.uid, review.decide(request, creator, choice, self.rules))

    def _choice(self, request: AdmissionRequest) -> QueueChoice | None:
        if not request.is_new_pod:
            return None
        return self.choose(mark(review.meta_of(request), QUEUE), request.namespace)

    async def _creator_of(self, owner: OwnerRef, namespace: str) -> str:
        """Return the creator of an owner; empty if it is not recorded or cannot be read."""
        if owner.uid in self._creators:
            return self._creators[owner.uid]
        path = path_of(owner, namespace)
        meta = await self.find(path) if path else None
        if meta is None or meta.uid != owner.uid:  # another object may have the same name
            return ""
        self._creators[owner.uid] = (meta.annotations or {}).get(CREATOR, "")
        for uid in list(islice(self._creators, max(0, len(self._creators) - MOST_REMEMBERED))):
            del self._creators[uid]
        return self._creators.get(owner.uid, "")


def application(handler: AdmissionHandler, trouble: Callable[[], str]) -> Starlette:
    """Return the web application of the webhook.

    `trouble` returns why this process is not ready, in a sentence; empty if it is ready.
    """

    async def mutate(request: HttpRequest) -> Response:
        try:
            answer = await handler.answer(await request.body())
        except msgspec.DecodeError as error:
            return PlainTextResponse(f"this is no AdmissionReview: {error}\n", 400)
        return Response(answer, media_type="application/json")

    async def healthz(_request: HttpRequest) -> Response:
        return PlainTextResponse("ok\n")

    async def readyz(_request: HttpRequest) -> Response:
        sentence = trouble()
        return PlainTextResponse(f"{sentence or 'ok'}\n", 503 if sentence else 200)

    return Starlette(
        routes=[
            Route("/mutate", mutate, methods=["POST"]),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
        ]
    )
