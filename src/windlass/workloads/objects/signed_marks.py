"""Signed annotations on objects that users can write too.

A signature covers the uid of the object, the name of the annotation and its value, so that users
can neither change a value nor copy it to another object. This module has only the interface of a
signer, so that pure code can use one; the keys are in `kube/writers/signing.py`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from windlass.workloads.objects.annotations import SEAL, SUSPENDED
from windlass.workloads.objects.wire import Owner


class Seal(Protocol):
    """A signer of annotations; without a private key it can only verify."""

    @property
    def can_sign(self) -> bool:
        """Return whether there is a private key."""
        ...

    def sign(self, uid: str, name: str, value: str) -> str:
        """Return the signature of an annotation on the object with this uid."""
        ...

    def verify(self, uid: str, name: str, value: str, signature: str) -> bool:
        """Return whether our scheduler signed this annotation for the object with this uid."""
        ...


class _Keyless:
    can_sign = False

    def sign(self, uid: str, name: str, value: str) -> str:
        raise AssertionError(f"there is no key to sign {name} of {uid} with")

    def verify(self, uid: str, name: str, value: str, signature: str) -> bool:
        return False


NO_SEAL: Seal = _Keyless()
"""A signer without keys: it signs nothing and accepts no signature."""


def without_unsigned_mark(owner: Owner, seal: Seal) -> Owner:
    """Return the owner, without its suspension mark unless our scheduler has signed that mark."""
    notes = owner.metadata.annotations or {}
    if SUSPENDED not in notes:
        return owner
    signature = notes.get(SEAL, "")
    if signature and seal.verify(owner.metadata.uid, SUSPENDED, notes[SUSPENDED], signature):
        return owner
    kept = {key: value for key, value in notes.items() if key not in (SUSPENDED, SEAL)}
    meta = msgspec.structs.replace(owner.metadata, annotations=kept)
    return msgspec.structs.replace(owner, metadata=meta)
