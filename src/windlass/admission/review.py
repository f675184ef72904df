"""AdmissionReview -> patch and warnings.

What is done, in namespaces that are managed:

    pods when created      schedulerName, if it is the default one; the queue, if they name none
    all when created       who made it: who asks or, if a controller asks, the creator of the owner
    all when updated       the creator stays who it was

Left alone: pods of DaemonSets, pods that name their node, pods that name another scheduler (the
policies refuse those that ask for GPUs). Nothing is ever refused here.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.crds.queue_access import Choice
from windlass.workloads.objects.annotations import CREATOR, QUEUE, mark
from windlass.workloads.objects.wire import ObjectMeta, OwnerRef, WireStruct, controller

DEFAULT_SCHEDULER = "default-scheduler"
"""What the API server writes where nothing was said; nobody can tell both apart."""


class User(WireStruct, frozen=True):
    """Who asks."""

    username: str = ""


class Resource(WireStruct, frozen=True):
    """What is asked about."""

    group: str = ""
    resource: str = ""


class ReviewedPodSpec(WireStruct, frozen=True):
    """What of a pod matters here."""

    scheduler_name: str = ""
    node_name: str = ""


class ReviewedObject(WireStruct, frozen=True):
    """Any object."""

    metadata: ObjectMeta = ObjectMeta()


class AnyPod(WireStruct, frozen=True):
    """A pod."""

    spec: ReviewedPodSpec = ReviewedPodSpec()


class AdmissionRequest(WireStruct, frozen=True):
    """What is to be created or updated."""

    uid: str
    operation: str = ""
    namespace: str = ""
    resource: Resource = Resource()
    user_info: User = User()
    object: msgspec.Raw = msgspec.Raw(b"{}")
    old_object: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_new_pod(self) -> bool:
        """Is a pod being created?"""
        what = (self.resource.group, self.resource.resource)
        return self.operation == "CREATE" and what == ("", "pods")


class Review(WireStruct, frozen=True):
    """The envelope."""

    request: AdmissionRequest


@dataclass(frozen=True, slots=True)
class Rules:
    """What the webhook is told from outside."""

    scheduler: str = "windlass"
    controllers: tuple[str, ...] = ()
    """Who makes pods for others; a name may end in a star."""

    def is_controller(self, user: str) -> bool:
        """Does this user make what belongs to others?"""
        return any(
            user.startswith(known[:-1]) if known.endswith("*") else user == known
            for known in self.controllers
        )


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """What is changed, and what the user is told."""

    patch: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()


def read(body: bytes) -> AdmissionRequest:
    """The request in a review; msgspec.DecodeError if it is none."""
    return _review.decode(body).request


def meta_of(request: AdmissionRequest) -> ObjectMeta:
    """The identity of what is created or updated."""
    return _thing.decode(request.object).metadata


def creator_of(request: AdmissionRequest, rules: Rules) -> str | OwnerRef:
    """Who made it: a name or, if a controller asks, the owner whose creator it is."""
    if request.operation != "CREATE":
        before = _old.decode(request.old_object)
        return _said(before.metadata) if before else ""
    user = request.user_info.username
    owner = controller(meta_of(request))
    return owner if owner is not None and rules.is_controller(user) else user


def decide(
    request: AdmissionRequest, creator: str, choice: Choice | None, rules: Rules
) -> ReviewAnswer:
    """What to change; `choice` is the queue that the namespace has for the pod, if it is known."""
    meta = meta_of(request)
    notes = _noted(meta, creator)
    if not request.is_new_pod:
        return ReviewAnswer(tuple(_patched(meta.annotations, "annotations", notes)))
    spec = _pod.decode(request.object).spec
    becomes_ours = _is_open(spec, controller(meta))
    patch = [_replace_scheduler(rules.scheduler)] if becomes_ours else []
    labels: dict[str, str | None] = {}
    warnings: tuple[str, ...] = ()
    if choice is not None and (becomes_ours or spec.scheduler_name == rules.scheduler):
        if choice.queue and not choice.sentence and not mark(meta, QUEUE):
            labels[QUEUE] = choice.queue
        warnings = (f"it will wait: {choice.sentence}",) if choice.sentence else ()
    patch += _patched(meta.labels, "labels", labels)
    patch += _patched(meta.annotations, "annotations", notes)
    return ReviewAnswer(tuple(patch), warnings)


def response(uid: str, answer: ReviewAnswer) -> bytes:
    """The review that goes back."""
    said: dict[str, Any] = {"uid": uid, "allowed": True}
    if answer.patch:
        said["patchType"] = "JSONPatch"
        said["patch"] = b64encode(msgspec.json.encode(answer.patch)).decode()
    if answer.warnings:
        said["warnings"] = answer.warnings
    whole = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": said}
    return msgspec.json.encode(whole)


_review = msgspec.json.Decoder(Review)
_thing = msgspec.json.Decoder(ReviewedObject)
_old = msgspec.json.Decoder(ReviewedObject | None)
_pod = msgspec.json.Decoder(AnyPod)


def _said(meta: ObjectMeta) -> str:
    return (meta.annotations or {}).get(CREATOR, "")


def _noted(meta: ObjectMeta, creator: str) -> dict[str, str | None]:
    """The annotation to write, or to take away if somebody else wrote it."""
    if _said(meta) == creator:
        return {}
    return {CREATOR: creator or None}


def _is_open(spec: ReviewedPodSpec, owner: OwnerRef | None) -> bool:
    """Is it undecided who places the pod?"""
    is_default = spec.scheduler_name in ("", DEFAULT_SCHEDULER)
    is_of_node = owner is not None and owner.kind == "DaemonSet"
    return is_default and not spec.node_name and not is_of_node


def _replace_scheduler(name: str) -> dict[str, Any]:
    return {"op": "add", "path": "/spec/schedulerName", "value": name}


def _patched(
    there: dict[str, str] | None, field: str, changes: dict[str, str | None]
) -> Iterator[dict[str, Any]]:
    if not changes:
        return
    if there is None:
        yield {"op": "add", "path": f"/metadata/{field}", "value": {}}
    for key, value in changes.items():
        path = f"/metadata/{field}/{key.replace('~', '~0').replace('/', '~1')}"
        yield {"op": "remove", "path": path} if value is None else _added(path, value)


def _added(path: str, value: str) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}
