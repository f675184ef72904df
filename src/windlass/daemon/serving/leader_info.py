"""Who leads and with which settings, for those who only ask.

A leader writes on its lease what it answers for. So commands see a cluster as it does, without
being told what it was told.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
from pydantic import ValidationError

from windlass.config import Config
from windlass.kube.client.client import Api
from windlass.kube.client.errors import Forbidden, NotFound
from windlass.kube.client.leader_election import PAUSED, LeaseRecord, LeaseTerms
from windlass.kube.writers.signing import PUBLIC_KEY, Signing, Unchecked
from windlass.model.units import parse_timestamp_or_none
from windlass.workloads.objects.annotations import PREFIX
from windlass.workloads.objects.signed_marks import Seal

SETTINGS = PREFIX + "settings"
"""Annotation of the lease: what the leader answers for."""
DASHBOARD = PREFIX + "dashboard"
"""Annotation of the lease: where the leader's dashboard is, as the other replicas reach it."""
_PUBLISHED = {"scheduler_names", "namespaces", "node_selector", "default_queue", "kinds"}
CLOCKS_APART_S = 5
"""This machine's clock and the leader's need not agree better than so."""


class _Leases(msgspec.Struct):
    items: list[LeaseRecord]


_lease_of = msgspec.json.Decoder(LeaseRecord)
_leases_of = msgspec.json.Decoder(_Leases)


async def read_lease(api: Api, config: Config) -> LeaseRecord | None:
    """The lease by which one leads; None, if it may not be read."""
    try:
        return _lease_of.decode(await api.get(await lease_path(api, config)))
    except NotFound:
        return LeaseRecord()
    except Forbidden:
        return None


async def lease_path(api: Api, config: Config) -> str:
    """Where the lease lies: where the settings say, or where the only one of its name is found."""
    path = LeaseTerms(config.lease.name, config.lease.namespace).path
    with suppress(Forbidden):
        only = {"fieldSelector": f"metadata.name={config.lease.name}"}
        body = await api.get("/apis/coordination.k8s.io/v1/leases", only)
        found = {each.metadata.namespace for each in _leases_of.decode(body).items}
        if len(found) == 1 and config.lease.namespace not in found:
            return LeaseTerms(config.lease.name, found.pop()).path
    return path


def leader_of(lease: LeaseRecord | None, now: int) -> str | None:
    """Who leads; empty if nobody does: a lease that was not renewed in time is nobody's."""
    if lease is None:
        return None
    renewed = parse_timestamp_or_none(lease.spec.renew_time) or 0
    is_held = renewed + (lease.spec.lease_duration_seconds or 0) + CLOCKS_APART_S >= now
    return (lease.spec.holder_identity or "") if is_held else ""


def published(config: Config) -> str:
    """What others must know to see the cluster as a daemon with these settings does."""
    return config.model_dump_json(include=_PUBLISHED, exclude_defaults=True)


def as_leader(config: Config, lease: LeaseRecord | None) -> Config:
    """The settings, completed by those of the leader; what somebody has set explicitly stands."""
    text = (lease.metadata.annotations or {}).get(SETTINGS, "{}") if lease else "{}"
    try:
        theirs = Config.model_validate_json(text)
    except ValidationError:  # of another version
        return config
    unsaid = _PUBLISHED & theirs.model_fields_set - config.model_fields_set
    return config.model_copy(update={key: getattr(theirs, key) for key in unsaid})


def is_paused(lease: LeaseRecord | None) -> bool:
    """Are evictions paused, as far as is known?"""
    return lease is not None and (lease.metadata.annotations or {}).get(PAUSED) == "true"


def public_key_of(lease: LeaseRecord | None) -> str:
    """The key by which the leader's signatures are checked; empty if it tells none."""
    return (lease.metadata.annotations or {}).get(PUBLIC_KEY, "") if lease else ""


def seal_of(lease: LeaseRecord | None) -> Seal:
    """Tells which marks are the leader's, for a command that only looks."""
    return Unchecked() if lease is None else Signing(public=public_key_of(lease))
