"""The key with which the leader signs its marks, and where it is kept.

    Secret `<lease>-signing-key`     the private key; only the scheduler's account may read it
    annotation of the Lease          the public key; who may read the Lease can check signatures

Whoever leads reads the Secret, and fills it if it is empty or missing. All replicas so sign with
the same key. If the Secret is deleted, the next leader makes another key, and marks that were
signed with the old one are no longer believed.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from contextlib import suppress

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from windlass.kube.client.client import Api
from windlass.kube.client.errors import Conflict, NotFound
from windlass.workloads.objects.annotations import PREFIX
from windlass.workloads.objects.wire import ObjectMeta, WireStruct

PUBLIC_KEY = PREFIX + "signing-key"
"""Annotation of the lease: the public key of the leader, in base64; empty if it has none."""
FIELD = "ed25519"
"""The key of the Secret under which the 32 bytes of the private key are kept."""
MOST_KNOWN = 50_000
"""So many answers are remembered; then it begins anew."""
MOST_TRIES = 5


class UnreadableKey(ValueError):
    """A key is there, and it is not one."""


class Signing:
    """Signs and checks annotations; as long as it has no key it signs and believes nothing."""

    def __init__(self, private: bytes = b"", public: str = "") -> None:
        """`private` are 32 bytes; `public` is for who can only check. Empty: there is no key."""
        self._private: Ed25519PrivateKey | None = None
        self._public: Ed25519PublicKey | None = None
        self._known: dict[bytes, bool] = {}
        if private:
            self.use(private)
        else:
            self.only_check(public)

    def use(self, private: bytes | None) -> None:
        """Sign with this key from now on; with None, with none."""
        self._known = {}
        try:
            key = Ed25519PrivateKey.from_private_bytes(private) if private is not None else None
        except ValueError as error:
            raise UnreadableKey(str(error)) from None
        self._private, self._public = key, key.public_key() if key else None

    def only_check(self, public: str) -> None:
        """Check with this public key from now on, as a lease tells it, and sign nothing."""
        self._known, self._private, self._public = {}, None, None
        with suppress(ValueError, NotBase64):
            self._public = Ed25519PublicKey.from_public_bytes(b64decode(public))

    @property
    def can_sign(self) -> bool:
        """Is there a private key?"""
        return self._private is not None

    @property
    def public(self) -> str:
        """The public key as it is published; empty if there is none."""
        return b64encode(self._public.public_bytes_raw()).decode() if self._public else ""

    def sign(self, uid: str, name: str, value: str) -> str:
        """The signature of an annotation on the object with this uid."""
        assert self._private is not None, "nothing is signed without a key"
        return b64encode(self._private.sign(_message(uid, name, value))).decode()

    def verify(self, uid: str, name: str, value: str, signature: str) -> bool:
        """Did our scheduler sign this annotation for the object with this uid?

        Owners change often and their marks seldom: each answer is worked out once.
        """
        if self._public is None:
            return False
        message = _message(uid, name, value)
        asked = hashlib.sha256(signature.encode() + b"\0" + message).digest()
        found = self._known.get(asked)
        if found is None:
            if len(self._known) >= MOST_KNOWN:
                self._known = {}
            found = self._known[asked] = _is_signed(self._public, message, signature)
        return found


class Unchecked:
    """For a command that may not read the lease: what carries a signature is shown as if it held.

    Nothing is decided by what a command shows.
    """

    can_sign = False

    def sign(self, uid: str, name: str, value: str) -> str:
        """Refuse: who only looks writes nothing."""
        raise AssertionError(f"{name} of {uid} is not for us to sign")

    def verify(self, uid: str, name: str, value: str, signature: str) -> bool:
        """Believe it."""
        return bool(signature)


class _Secret(WireStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


_secret = msgspec.json.Decoder(_Secret)


async def private_key(api: Api, namespace: str, name: str) -> bytes:
    """The private key that this Secret keeps; it is made, if there is none yet.

    Raises ApiError if the Secret may not be read or written, UnreadableKey if it holds no key.
    """
    folder = f"/api/v1/namespaces/{namespace}/secrets"
    for left in reversed(range(MOST_TRIES)):
        try:
            there = _secret.decode(await api.get(f"{folder}/{name}"))
        except NotFound:
            there = None
        if there is not None and (text := (there.data or {}).get(FIELD)):
            return _read(text, name)
        key = Ed25519PrivateKey.generate().private_bytes_raw()
        data = {FIELD: b64encode(key).decode()}
        try:
            if there is None:
                meta = {"name": name, "namespace": namespace}
                kind = {"apiVersion": "v1", "kind": "Secret"}
                await api.post(folder, {**kind, "metadata": meta, "data": data})
            else:
                version = {"resourceVersion": there.metadata.resource_version}
                await api.patch(f"{folder}/{name}", {"metadata": version, "data": data})
            return key
        except Conflict:  # another replica was quicker: read what it wrote
            if not left:
                raise
    raise AssertionError("unreachable")


def _read(text: str, name: str) -> bytes:
    try:
        key = b64decode(text, validate=True)
        Ed25519PrivateKey.from_private_bytes(key)
    except (ValueError, NotBase64) as error:
        raise UnreadableKey(f"Secret {name} has no Ed25519 key under {FIELD}: {error}") from None
    return key


def _message(uid: str, name: str, value: str) -> bytes:
    """Return the bytes that are signed; neither a uid nor a name can contain the separator."""
    return "\0".join(("windlass.dev", uid, name, value)).encode()


def _is_signed(key: Ed25519PublicKey, message: bytes, signature: str) -> bool:
    try:
        key.verify(b64decode(signature, validate=True), message)
    except (InvalidSignature, ValueError, NotBase64):
        return False
    return True
