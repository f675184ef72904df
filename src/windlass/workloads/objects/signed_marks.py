"""How our scheduler signs what it writes on objects that users may write too.

A signature covers the uid of the object, the name of the annotation and its value: nobody can
write another value, or copy one to another object. Here is only what a signer must be able to do,
so that pure code can ask for it; the keys are in `kube/writers/signing.py`.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

from windlass.workloads.objects.annotations import SEAL, SUSPENDED
from windlass.workloads.objects.wire import Owner


class Seal(Protocol):
    """A signer of annotations, or somebody who can only check signatures."""

    @property
    def can_sign(self) -> bool:
        """Is there a private key?"""
        ...

    def sign(self, uid: str, name: str, value: str) -> str:
        """The signature of an annotation on the object with this uid."""
        ...

    def verify(self, uid: str, name: str, value: str, signature: str) -> bool:
        """Did our scheduler sign this annotation for the object with this uid?"""
        ...


class _Keyless:
    can_sign = False

    def sign(self, uid: str, name: str, value: str) -> str:
        raise AssertionError(f"there is no key to sign {name} of {uid} with")

    def verify(self, uid: str, name: str, value: str, signature: str) -> bool:
        return False


NO_SEAL: Seal = _Keyless()
"""Without a key: nothing can be signed, and nothing is believed."""


def believed(owner: Owner, seal: Seal) -> Owner:
    """The owner without its mark, unless our scheduler signed that mark for this very object."""
    notes = owner.metadata.annotations or {}
    if SUSPENDED not in notes:
        return owner
    signature = notes.get(SEAL, "")
    if signature and seal.verify(owner.metadata.uid, SUSPENDED, notes[SUSPENDED], signature):
        return owner
    kept = {key: value for key, value in notes.items() if key not in (SUSPENDED, SEAL)}
    meta = msgspec.structs.replace(owner.metadata, annotations=kept)
    return msgspec.structs.replace(owner, metadata=meta)
