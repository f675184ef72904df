"""The webhook's own authority and certificate: made here, kept in a Secret, renewed in time.

When the authority is renewed, the former one stays in the CA bundle. So a replica that still serves
with a certificate of the former authority is trusted until it has loaded the new one.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from windlass.certificates import Authority, Pair

AUTHORITY_VALID = timedelta(days=3650)
SERVING_VALID = timedelta(days=90)
AUTHORITY_MARGIN = timedelta(days=365)
SERVING_MARGIN = timedelta(days=30)
"""The authority and the serving certificate are renewed if they expire within these times."""


@dataclass(frozen=True, slots=True)
class WebhookCertificates:
    """The authority of the webhook and its serving certificate."""

    authority: Pair
    serving: Pair
    former: bytes = b""
    """The certificate of the former authority, as PEM; empty if there was none."""

    @property
    def bundle(self) -> bytes:
        """The certificates of the authorities that the API server is to trust, as PEM."""
        return self.authority.certificate + self.former


def make(hosts: Sequence[str]) -> WebhookCertificates:
    """Return a new authority and certificate for a server with these host names."""
    authority = Authority.make("windlass-webhook", AUTHORITY_VALID)
    return WebhookCertificates(authority.own, authority.serving(hosts, SERVING_VALID))


def renewed(
    papers: WebhookCertificates, hosts: Sequence[str], now: datetime
) -> WebhookCertificates | None:
    """Return renewed certificates; None if the current ones are still good.

    They are not if they expire soon, or if the server has a host name they do not cover.
    """
    if papers.authority.ends_at - now < AUTHORITY_MARGIN:
        return replace(make(hosts), former=papers.authority.certificate)
    is_short = papers.serving.ends_at - now < SERVING_MARGIN
    if is_short or not papers.serving.hosts >= set(hosts):
        authority = Authority(papers.authority)
        return replace(papers, serving=authority.serving(hosts, SERVING_VALID))
    return None


def written(papers: WebhookCertificates) -> dict[str, str]:
    """Return the certificates and keys as the data of a Secret."""
    parts = {
        "ca.crt": papers.authority.certificate,
        "ca.key": papers.authority.key,
        "former.crt": papers.former,
        "tls.crt": papers.serving.certificate,
        "tls.key": papers.serving.key,
    }
    return {name: b64encode(part).decode() for name, part in parts.items()}


def read(data: Mapping[str, str]) -> WebhookCertificates | None:
    """Return the certificates in the data of a Secret; None if missing or unreadable."""
    try:
        parts = {name: b64decode(text) for name, text in data.items()}
        authority = Pair(parts["ca.crt"], parts["ca.key"])
        serving = Pair(parts["tls.crt"], parts["tls.key"])
        papers = WebhookCertificates(authority, serving, parts.get("former.crt", b""))
        _ = Authority(authority), serving.ends_at, serving.hosts  # raises if they are malformed
    except (KeyError, ValueError, TypeError):
        return None
    return papers
