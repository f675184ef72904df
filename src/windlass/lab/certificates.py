"""A certificate authority for one control plane, made in milliseconds and thrown away with it.

Keys are elliptic (P-256): quick to make and accepted by every part of Kubernetes. A client
certificate carries the user as its common name and the groups as organizations.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=365)
MARGIN = timedelta(days=1)
"""Valid since yesterday, for tests that turn a clock back."""
SERVER_NAMES = ("localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc")


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate with its private key, both as PEM."""

    certificate: bytes
    key: bytes

    def write(self, folder: Path, name: str) -> tuple[Path, Path]:
        """Write both files; the key can be read by its owner alone."""
        certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
        certificate.write_bytes(self.certificate)
        write_secret(key, self.key)
        return certificate, key


class Authority:
    """Who signs the certificates of one control plane."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = _subject("windlass-lab", ())
        builder = _unsigned(self._name, self._name, self._key.public_key())
        signs = x509.BasicConstraints(ca=True, path_length=0)
        signed = builder.add_extension(signs, critical=True).sign(self._key, hashes.SHA256())
        self.certificate = signed.public_bytes(Encoding.PEM)

    def serving(self) -> Pair:
        """A certificate for a server on loopback."""
        names = [x509.DNSName(name) for name in SERVER_NAMES]
        addresses = [x509.IPAddress(IPv4Address("127.0.0.1"))]
        alternatives = x509.SubjectAlternativeName([*names, *addresses])
        return self._issue("localhost", (), ExtendedKeyUsageOID.SERVER_AUTH, alternatives)

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """A certificate that says who asks."""
        return self._issue(user, groups, ExtendedKeyUsageOID.CLIENT_AUTH, None)

    def _issue(
        self,
        name: str,
        groups: Sequence[str],
        use: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _unsigned(_subject(name, groups), self._name, key.public_key())
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        if alternatives:
            builder = builder.add_extension(alternatives, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Pair(signed.public_bytes(Encoding.PEM), _private_pem(key))


def signing_keys() -> tuple[bytes, bytes]:
    """A private key to sign service account tokens, and its public half."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return _private_pem(key), public


def write_secret(path: Path, data: bytes) -> None:
    """Write a file that was never readable by others, not even for a moment."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(data)


def _subject(name: str, groups: Sequence[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - MARGIN).not_valid_after(now + VALID)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
