"""The key with which the leader signs its marks, and where it is kept.

    Secret `<lease>-signing-key`     the private key; only the scheduler's account may read it
    annotation of the Lease          the public key; every reader of the Lease can check signatures

The leader reads the Secret, and fills it if it is empty or missing. So all replicas sign with the
same key. If the Secret is deleted, the next leader makes another key, and marks that were signed
with the old one are no longer accepted.
"""

from __future__ import annotations

import hashlib
from base64 import b64decode, b64encode
from binascii import Error as NotBase64
from contextlib import suppress

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from windlass.kube.client import Api, Conflict, NotFound
from windlass.workloads.objects import PREFIX, ObjectMeta, WireStruct

PUBLIC_KEY = PREFIX + "signing-key"
"""The annotation of the lease with the leader's public key, in base64; empty if it has none."""
FIELD = "ed25519"
"""The key of the Secret under which the 32 bytes of the private key are kept."""
MOST_KNOWN = 50_000
"""Results of verifications that are cached; at this size the cache is emptied."""
MOST_TRIES = 5
"""Attempts to read or write the Secret while other replicas write it too."""


class UnreadableKey(ValueError):
    """The stored key is not an Ed25519 key."""


class Signing:
    """Signs and verifies annotations; without a key it signs nothing and every check fails."""

    def __init__(self, private: bytes = b"", public: str = "") -> None:
        """Take a private key of 32 bytes, or a public key in base64 that can only verify."""
        self._private: Ed25519PrivateKey | None = None
        self._public: Ed25519PublicKey | None = None
        self._verified: dict[bytes, bool] = {}
        """Cached results by a digest of the signature and the message. They hold for one public
        key: whoever changes `_public` must empty it."""
        if private:
            self.use(private)
        else:
            self.verify_with(public)

    def use(self, private: bytes | None) -> None:
        """Sign and verify with this private key from now on; None removes the key.

        Raises `UnreadableKey` if it is not a key.
        """
        self._verified = {}
        try:
            key = Ed25519PrivateKey.from_private_bytes(private) if private is not None else None
        except ValueError as error:
            raise UnreadableKey(str(error)) from None
        self._private, self._public = key, key.public_key() if key else None

    def verify_with(self, public: str) -> None:
        """Verify with this public key from now on, in base64 as on the lease, and sign nothing."""
        self._verified, self._private, self._public = {}, None, None
        with suppress(ValueError, NotBase64):
            self._public = Ed25519PublicKey.from_public_bytes(b64decode(public))

    @property
    def can_sign(self) -> bool:
        """Return whether there is a private key."""
        return self._private is not None

    @property
    def public(self) -> str:
        """Return the public key in base64, as it is published; empty if there is none."""
        return b64encode(self._public.public_bytes_raw()).decode() if self._public else ""

    def sign(self, uid: str, name: str, value: str) -> str:
        """Return the signature, in base64, of an annotation on the object with this uid."""
        assert self._private is not None, "nothing is signed without a key"
        return b64encode(self._private.sign(_message(uid, name, value))).decode()

    def verify(self, uid: str, name: str, value: str, signature: str) -> bool:
        """Return whether our scheduler signed this annotation for the object with this uid.

        Owners change often and their marks rarely, so results are cached.
        """
        if self._public is None:
            return False
        message = _message(uid, name, value)
        digest = hashlib.sha256(signature.encode() + b"\0" + message).digest()
        is_valid = self._verified.get(digest)
        if is_valid is None:
            if len(self._verified) >= MOST_KNOWN:
                self._verified = {}
            is_valid = self._verified[digest] = _is_signed(self._public, message, signature)
        return is_valid


class UncheckedSignatures:
    """Accepts every signature, for a command that may not read the public key from the lease.

    That is safe: such a command only shows the cluster, and nothing is decided by it.
    """

    can_sign = False

    def sign(self, uid: str, name: str, value: str) -> str:
        """Raise AssertionError: a command that only reads writes no marks."""
        raise AssertionError(f"{name} of {uid} is not for us to sign")

    def verify(self, uid: str, name: str, value: str, signature: str) -> bool:
        """Return whether there is a signature at all."""
        return bool(signature)


class _Secret(WireStruct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    data: dict[str, str] | None = None


_secret = msgspec.json.Decoder(_Secret)


async def private_key(api: Api, namespace: str, name: str) -> bytes:
    """Return the private key in this Secret; make and store one if there is none yet.

    Raises `ApiError` if the Secret may not be read or written, `UnreadableKey` if its content is
    not a key.
    """
    folder = f"/api/v1/namespaces/{namespace}/secrets"
    for tries_left in reversed(range(MOST_TRIES)):
        try:
            secret = _secret.decode(await api.get(f"{folder}/{name}"))
        except NotFound:
            secret = None
        if secret is not None and (text := (secret.data or {}).get(FIELD)):
            return _read(text, name)
        key = Ed25519PrivateKey.generate().private_bytes_raw()
        data = {FIELD: b64encode(key).decode()}
        try:
            if secret is None:
                meta = {"name": name, "namespace": namespace}
                kind = {"apiVersion": "v1", "kind": "Secret"}
                await api.post(folder, {**kind, "metadata": meta, "data": data})
            else:
                version = {"resourceVersion": secret.metadata.resource_version}
                await api.patch(f"{folder}/{name}", {"metadata": version, "data": data})
            return key
        except Conflict:  # another replica wrote it first: read that key
            if not tries_left:
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
