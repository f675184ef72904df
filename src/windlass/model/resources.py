"""The request of one task: CPU, memory, GPUs and named extras, all as integers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from windlass.model.gpus import WHOLE, GpuRequest

Pairs: TypeAlias = tuple[tuple[str, str], ...]
"""A small hashable mapping, such as labels or a selector, sorted by key."""


class Remembering:
    """A base class with a slot for a cached hash.

    It is a slot of a base class and not a field, so that it is neither compared nor serialised.
    """

    __slots__ = ("_hash",)
    _hash: int


@dataclass(frozen=True, slots=True)
class Port:
    """A host port at one address of the node; without an address, at all of them."""

    number: int
    protocol: str = "TCP"
    address: str = ""


@dataclass(frozen=True, slots=True)
class Request(Remembering):
    """The resources of one task; it also takes one pod slot."""

    cpu_milli: int = 0
    memory_mib: int = 0
    gpu: GpuRequest | None = None
    extra: tuple[tuple[str, int], ...] = ()
    ports: tuple[Port, ...] = ()

    def __hash__(self) -> int:
        # Computed many times per decision, so it is cached.
        try:
            return self._hash
        except AttributeError:
            parts = (self.cpu_milli, self.memory_mib, self.gpu, self.extra, self.ports)
            object.__setattr__(self, "_hash", hash(parts))
            return self._hash


def describe(request: Request) -> str:
    """Return the request in words, such as "2 GPUs (H100-80GB), 8 CPU, 64 GiB"."""
    parts = [_gpus(request.gpu)] if request.gpu else []
    if request.cpu_milli:
        parts.append(f"{request.cpu_milli / 1000:g} CPU")
    if request.memory_mib:
        parts.append(f"{request.memory_mib / 1024:g} GiB")
    parts += [f"{amount} {name}" for name, amount in request.extra]
    parts += [f"{port.protocol} port {port.number} of the node" for port in request.ports]
    return ", ".join(parts) or "nothing but a pod slot"


def _gpus(gpu: GpuRequest) -> str:
    models = f" ({' or '.join(gpu.models)})" if gpu.models else ""
    if gpu.profile:
        return f"{gpu.count} MIG {gpu.profile}{models}"
    if gpu.memory_mib:
        return f"{gpu.memory_mib} MiB on each of {gpu.count} GPUs{models}"
    if gpu.milli < WHOLE:
        return f"{gpu.milli / WHOLE:g} of each of {gpu.count} GPUs{models}".replace(
            "each of 1 GPUs", "a GPU"
        )
    return f"{gpu.count} GPU{'s' if gpu.count > 1 else ''}{models}"


def pairs(mapping: Mapping[str, str]) -> Pairs:
    """Return a mapping as pairs in key order, so that equal mappings are equal values."""
    return tuple(sorted(mapping.items()))
