"""Decide an AdmissionReview: the patch and the warnings for one object.

In managed namespaces:

    new pods       schedulerName, if it is the default one; the queue label, if they have none
    new objects    the creator: the user or, for a controller, the creator of the owner
    updates        the creator stays as it was

Not changed: pods of DaemonSets, pods that name their node, pods that name another scheduler (the
admission policies refuse those that request GPUs). The webhook itself never refuses anything.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from windlass.crds.queue_access import QueueChoice
from windlass.workloads.objects import (
    CREATOR,
    QUEUE,
    ObjectMeta,
    OwnerRef,
    WireStruct,
    controller,
    mark,
)

DEFAULT_SCHEDULER = "default-scheduler"
"""The default of the API server; a pod that names it cannot be told from one that names none."""


class User(WireStruct, frozen=True):
    """The user who makes the request."""

    username: str = ""


class Resource(WireStruct, frozen=True):
    """The API group and the resource name (such as `pods`) of the object under review."""

    group: str = ""
    resource: str = ""


class ReviewedPodSpec(WireStruct, frozen=True):
    """The fields of a pod's spec that are needed here."""

    scheduler_name: str = ""
    node_name: str = ""


class ReviewedObject(WireStruct, frozen=True):
    """Any object, with its metadata."""

    metadata: ObjectMeta = ObjectMeta()


class AnyPod(WireStruct, frozen=True):
    """A pod, with its spec."""

    spec: ReviewedPodSpec = ReviewedPodSpec()


class AdmissionRequest(WireStruct, frozen=True):
    """A request to create or update an object."""

    uid: str
    operation: str = ""
    namespace: str = ""
    resource: Resource = Resource()
    user_info: User = User()
    object: msgspec.Raw = msgspec.Raw(b"{}")
    old_object: msgspec.Raw = msgspec.Raw(b"null")

    @property
    def is_new_pod(self) -> bool:
        """Return whether a pod is being created."""
        resource = (self.resource.group, self.resource.resource)
        return self.operation == "CREATE" and resource == ("", "pods")


class Review(WireStruct, frozen=True):
    """An AdmissionReview: the envelope of a request."""

    request: AdmissionRequest


@dataclass(frozen=True, slots=True)
class Rules:
    """The settings of the webhook."""

    scheduler: str = "windlass"
    """The schedulerName to set."""
    controllers: tuple[str, ...] = ()
    """The users that create objects on behalf of others; a name may end in a star."""

    def is_controller(self, user: str) -> bool:
        """Return whether this user creates objects on behalf of others."""
        return any(
            user.startswith(name[:-1]) if name.endswith("*") else user == name
            for name in self.controllers
        )


@dataclass(frozen=True, slots=True)
class ReviewAnswer:
    """The JSON patch of the object, and the warnings for the user."""

    patch: tuple[dict[str, Any], ...] = ()
    warnings: tuple[str, ...] = ()


def read(body: bytes) -> AdmissionRequest:
    """Return the request in a review; raises `msgspec.DecodeError` if it cannot be decoded."""
    return _review.decode(body).request


def meta_of(request: AdmissionRequest) -> ObjectMeta:
    """Return the metadata of the object that is created or updated."""
    return _thing.decode(request.object).metadata


def creator_of(request: AdmissionRequest, rules: Rules) -> str | OwnerRef:
    """Return the creator of the object: a user name, empty if unknown.

    For a controller, return the owner of the object instead: its creator is to be looked up.
    """
    if request.operation != "CREATE":
        before = _old_object.decode(request.old_object)
        return _creator_in(before.metadata) if before else ""
    user = request.user_info.username
    owner = controller(meta_of(request))
    return owner if owner is not None and rules.is_controller(user) else user


def decide(
    request: AdmissionRequest, creator: str, choice: QueueChoice | None, rules: Rules
) -> ReviewAnswer:
    """Return the patch and the warnings for an object.

    `choice` is the queue that the namespace gives to a pod; None if that is not known.
    """
    meta = meta_of(request)
    notes = _creator_changes(meta, creator)
    if not request.is_new_pod:
        return ReviewAnswer(tuple(_patched(meta.annotations, "annotations", notes)))
    spec = _pod.decode(request.object).spec
    becomes_ours = _has_no_scheduler(spec, controller(meta))
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
    """Return the AdmissionReview that answers the request with this uid, as JSON."""
    body: dict[str, Any] = {"uid": uid, "allowed": True}
    if answer.patch:
        body["patchType"] = "JSONPatch"
        body["patch"] = b64encode(msgspec.json.encode(answer.patch)).decode()
    if answer.warnings:
        body["warnings"] = answer.warnings
    review = {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": body}
    return msgspec.json.encode(review)


_review = msgspec.json.Decoder(Review)
_thing = msgspec.json.Decoder(ReviewedObject)
_old_object = msgspec.json.Decoder(ReviewedObject | None)
_pod = msgspec.json.Decoder(AnyPod)


def _creator_in(meta: ObjectMeta) -> str:
    return (meta.annotations or {}).get(CREATOR, "")


def _creator_changes(meta: ObjectMeta, creator: str) -> dict[str, str | None]:
    """Return the change of the creator annotation; None as its value removes a forged one."""
    if _creator_in(meta) == creator:
        return {}
    return {CREATOR: creator or None}


def _has_no_scheduler(spec: ReviewedPodSpec, owner: OwnerRef | None) -> bool:
    """Return whether the pod names no scheduler and no node, and is not of a DaemonSet."""
    is_default = spec.scheduler_name in ("", DEFAULT_SCHEDULER)
    is_of_daemon_set = owner is not None and owner.kind == "DaemonSet"
    return is_default and not spec.node_name and not is_of_daemon_set


def _replace_scheduler(name: str) -> dict[str, Any]:
    return {"op": "add", "path": "/spec/schedulerName", "value": name}


def _patched(
    current: dict[str, str] | None, field: str, changes: dict[str, str | None]
) -> Iterator[dict[str, Any]]:
    """Yield the JSON patch operations for changes of labels or annotations; None removes a key."""
    if not changes:
        return
    if current is None:  # a JSON patch cannot add a key to a mapping that does not exist
        yield {"op": "add", "path": f"/metadata/{field}", "value": {}}
    for key, value in changes.items():
        path = f"/metadata/{field}/{key.replace('~', '~0').replace('/', '~1')}"
        if value is None:
            yield {"op": "remove", "path": path}
        else:
            yield {"op": "add", "path": path, "value": value}
