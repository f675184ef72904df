"""Certificates of a self-signed authority, for the webhook and for the control plane of the lab.

Keys are on the elliptic curve P-256: fast to make, and accepted by every part of Kubernetes. A
client certificate carries the user as its common name and the groups as organizations.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from pathlib import Path
from typing import cast

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

VALID = timedelta(days=365)
MARGIN = timedelta(days=1)
"""Certificates are valid from so long before their creation: clocks may differ, and tests turn a
clock back."""


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

    @property
    def ends_at(self) -> datetime:
        """The time at which the certificate expires."""
        return x509.load_pem_x509_certificate(self.certificate).not_valid_after_utc

    @property
    def hosts(self) -> frozenset[str]:
        """The host names and addresses that the certificate is for."""
        extensions = x509.load_pem_x509_certificate(self.certificate).extensions
        names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        return frozenset(str(name.value) for name in names)


class Authority:
    """A certificate authority: a new one by `make`, or one that was stored, from its pair."""

    def __init__(self, own: Pair) -> None:
        self.own = own
        self._certificate = x509.load_pem_x509_certificate(own.certificate)
        self._key = cast(ec.EllipticCurvePrivateKey, load_pem_private_key(own.key, None))

    @classmethod
    def make(cls, name: str, valid: timedelta = VALID) -> Authority:
        """Return a new self-signed authority."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = _subject(name, ())
        builder = _unsigned(subject, subject, key.public_key(), valid)
        signs = x509.BasicConstraints(ca=True, path_length=0)
        builder = builder.add_extension(signs, critical=True).add_extension(_SIGNS, critical=True)
        known_by = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
        signed = builder.add_extension(known_by, critical=False).sign(key, hashes.SHA256())
        return cls(Pair(signed.public_bytes(Encoding.PEM), _private_pem(key)))

    @property
    def certificate(self) -> bytes:
        """The certificate of the authority, as PEM."""
        return self.own.certificate

    def serving(self, hosts: Sequence[str], valid: timedelta = VALID) -> Pair:
        """Return a certificate for a server with these host names and addresses."""
        alternatives = x509.SubjectAlternativeName([_host(host) for host in hosts])
        use = ExtendedKeyUsageOID.SERVER_AUTH
        return self._issue(_subject(hosts[0][:64], ()), use, alternatives, valid)

    def client(self, user: str, groups: Sequence[str] = ()) -> Pair:
        """Return a certificate that authenticates a client as this user with these groups."""
        use = ExtendedKeyUsageOID.CLIENT_AUTH
        return self._issue(_subject(user, groups), use, None, VALID)

    def _issue(
        self,
        subject: x509.Name,
        use: x509.ObjectIdentifier,
        alternatives: x509.SubjectAlternativeName | None,
        valid: timedelta,
    ) -> Pair:
        key = ec.generate_private_key(ec.SECP256R1())
        builder = _unsigned(subject, self._certificate.subject, key.public_key(), valid)
        builder = builder.add_extension(x509.ExtendedKeyUsage([use]), critical=False)
        signer = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        builder = builder.add_extension(signer, critical=False)
        if alternatives:
            builder = builder.add_extension(alternatives, critical=False)
        signed = builder.sign(self._key, hashes.SHA256())
        return Pair(signed.public_bytes(Encoding.PEM), _private_pem(key))


def signing_keys() -> tuple[bytes, bytes]:
    """Return a private key to sign service account tokens, and its public half, as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return _private_pem(key), public


def write_secret(path: Path, data: bytes) -> None:
    """Write a file that only its owner can read, from its creation on."""
    path.unlink(missing_ok=True)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as stream:
        stream.write(data)


_SIGNS = x509.KeyUsage(
    digital_signature=False,
    content_commitment=False,
    key_encipherment=False,
    data_encipherment=False,
    key_agreement=False,
    key_cert_sign=True,
    crl_sign=True,
    encipher_only=False,
    decipher_only=False,
)


def _host(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _subject(name: str, groups: Sequence[str]) -> x509.Name:
    organizations = [x509.NameAttribute(NameOID.ORGANIZATION_NAME, group) for group in groups]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, name)])


def _unsigned(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey, valid: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    builder = x509.CertificateBuilder().subject_name(subject).issuer_name(issuer).public_key(key)
    builder = builder.serial_number(x509.random_serial_number())
    return builder.not_valid_before(now - MARGIN).not_valid_after(now + valid)


def _private_pem(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
