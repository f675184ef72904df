"""Read the leader and its settings from the lease, for commands and standby replicas.

A leader publishes its scope on the lease: scheduler names, namespaces, nodes, the default queue and
job kinds. So a command sees the cluster as the leader does, without the leader's configuration.
"""

from __future__ import annotations

from contextlib import suppress

import msgspec
from pydantic import ValidationError

from windlass.config import Config
from windlass.kube.client import PAUSED, Api, Forbidden, LeaseRecord, LeaseTerms, NotFound
from windlass.kube.writers import PUBLIC_KEY, Signing, UncheckedSignatures
from windlass.model.units import parse_timestamp_or_none
from windlass.workloads.objects import PREFIX, Seal

SETTINGS = PREFIX + "settings"
"""The annotation of the lease with the published settings of the leader, as JSON."""
DASHBOARD = PREFIX + "dashboard"
"""The annotation of the lease with the address of the leader's dashboard, for other replicas."""
_PUBLISHED = {"scheduler_names", "namespaces", "node_selector", "default_queue", "kinds"}
"""The fields of the configuration that are published: no secrets, and no local addresses."""
CLOCKS_APART_S = 5
"""The allowed difference between the clock of this machine and that of the leader."""


class _Leases(msgspec.Struct):
    items: list[LeaseRecord]


_lease_of = msgspec.json.Decoder(LeaseRecord)
_leases_of = msgspec.json.Decoder(_Leases)


async def read_lease(api: Api, config: Config) -> LeaseRecord | None:
    """Return the lease of the leader; an empty one if there is none, None if it is forbidden."""
    try:
        return _lease_of.decode(await api.get(await lease_path(api, config)))
    except NotFound:
        return LeaseRecord()
    except Forbidden:
        return None


async def lease_path(api: Api, config: Config) -> str:
    """Return the path of the lease.

    It is in the configured namespace or, if there is none, in the only namespace that has a lease
    of that name.
    """
    path = LeaseTerms(config.lease.name, config.lease.namespace).path
    with suppress(Forbidden):
        only = {"fieldSelector": f"metadata.name={config.lease.name}"}
        body = await api.get("/apis/coordination.k8s.io/v1/leases", only)
        namespaces = {lease.metadata.namespace for lease in _leases_of.decode(body).items}
        if len(namespaces) == 1 and config.lease.namespace not in namespaces:
            return LeaseTerms(config.lease.name, namespaces.pop()).path
    return path


def leader_of(lease: LeaseRecord | None, now: int) -> str | None:
    """Return the identity of the leader; None if the lease may not be read.

    Empty if nobody leads: a lease that was not renewed in time has expired.
    """
    if lease is None:
        return None
    renewed = parse_timestamp_or_none(lease.spec.renew_time) or 0
    is_held = renewed + (lease.spec.lease_duration_seconds or 0) + CLOCKS_APART_S >= now
    return (lease.spec.holder_identity or "") if is_held else ""


def published(config: Config) -> str:
    """Return the settings to publish on the lease, as JSON."""
    return config.model_dump_json(include=_PUBLISHED, exclude_defaults=True)


def as_leader(config: Config, lease: LeaseRecord | None) -> Config:
    """Return the configuration, completed by the published settings of the leader.

    Fields that are set explicitly in `config` stay.
    """
    text = (lease.metadata.annotations or {}).get(SETTINGS, "{}") if lease else "{}"
    try:
        leader_config = Config.model_validate_json(text)
    except ValidationError:  # the leader is of another version
        return config
    missing = _PUBLISHED & leader_config.model_fields_set - config.model_fields_set
    return config.model_copy(update={key: getattr(leader_config, key) for key in missing})


def is_paused(lease: LeaseRecord | None) -> bool:
    """Return whether evictions are paused; false if the lease could not be read."""
    return lease is not None and (lease.metadata.annotations or {}).get(PAUSED) == "true"


def public_key_of(lease: LeaseRecord | None) -> str:
    """Return the public key of the leader, in base64; empty if it has published none."""
    return (lease.metadata.annotations or {}).get(PUBLIC_KEY, "") if lease else ""


def seal_of(lease: LeaseRecord | None) -> Seal:
    """Return the verifier of the leader's marks, for a command that only reads.

    Without access to the lease there is no public key: then every signature is accepted.
    """
    return UncheckedSignatures() if lease is None else Signing(public=public_key_of(lease))
