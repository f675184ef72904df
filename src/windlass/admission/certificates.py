"""The webhook's own authority and certificate: made here, kept in a Secret, renewed in time.

When the authority is renewed the former one stays in the bundle, so that whoever still serves with
its certificate is believed until it has seen the new one.
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
"""What ends sooner is renewed."""


@dataclass(frozen=True, slots=True)
class Papers:
    """What is needed to be believed."""

    authority: Pair
    serving: Pair
    former: bytes = b""
    """The certificate of the authority before."""

    @property
    def bundle(self) -> bytes:
        """Whom the API server is to believe."""
        return self.authority.certificate + self.former


def make(hosts: Sequence[str]) -> Papers:
    """New papers for a server that is reached under these names."""
    authority = Authority.make("windlass-webhook", AUTHORITY_VALID)
    return Papers(authority.own, authority.serving(hosts, SERVING_VALID))


def renewed(papers: Papers, hosts: Sequence[str], now: datetime) -> Papers | None:
    """What to use from now on; None: what there is, is good."""
    if papers.authority.ends_at - now < AUTHORITY_MARGIN:
        return replace(make(hosts), former=papers.authority.certificate)
    is_short = papers.serving.ends_at - now < SERVING_MARGIN
    if is_short or not papers.serving.hosts >= set(hosts):
        authority = Authority(papers.authority)
        return replace(papers, serving=authority.serving(hosts, SERVING_VALID))
    return None


def written(papers: Papers) -> dict[str, str]:
    """The papers as the data of a Secret."""
    parts = {
        "ca.crt": papers.authority.certificate,
        "ca.key": papers.authority.key,
        "former.crt": papers.former,
        "tls.crt": papers.serving.certificate,
        "tls.key": papers.serving.key,
    }
    return {name: b64encode(part).decode() for name, part in parts.items()}


def read(data: Mapping[str, str]) -> Papers | None:
    """The papers in the data of a Secret; None if there are none, or none that can be read."""
    try:
        parts = {name: b64decode(text) for name, text in data.items()}
        authority = Pair(parts["ca.crt"], parts["ca.key"])
        serving = Pair(parts["tls.crt"], parts["tls.key"])
        papers = Papers(authority, serving, parts.get("former.crt", b""))
        _ = Authority(authority), serving.ends_at, serving.hosts
    except (KeyError, ValueError, TypeError):
        return None
    return papers
