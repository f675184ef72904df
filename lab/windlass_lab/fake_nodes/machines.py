"""The machines that the fake kubelet plays: sizes, GPUs, and racks."""

from __future__ import annotations

from dataclasses import dataclass, field

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
RACK = "topology.windlass.dev/rack"

GIB = 2**30


@dataclass(frozen=True, slots=True)
class Machine:
    """One node, as its kubelet would report it."""

    name: str
    cpu_milli: int = 112_000
    memory_bytes: int = 1_440 * GIB
    pods: int = 110
    gpus: int = 8
    model: str = "H100-80GB"
    labels: dict[str, str] = field(default_factory=dict[str, str])
    taints: tuple[tuple[str, str, str], ...] = ()
    """The taints as (key, value, effect)."""

    def devices(self) -> tuple[str, ...]:
        """Return the ids of its GPUs, as a device plug-in would name them."""
        return tuple(f"GPU-{self.name}-{index}" for index in range(self.gpus))


Fleet = tuple[Machine, ...]


def uniform(
    count: int, *, gpus: int = 8, model: str = "H100-80GB", prefix: str = "node", per_rack: int = 16
) -> Fleet:
    """Return this many machines of one kind, in racks of `per_rack` in three zones."""
    return tuple(
        Machine(name=f"{prefix}-{index:04}", gpus=gpus, model=model, labels=_place(index, per_rack))
        for index in range(count)
    )


def _place(index: int, per_rack: int) -> dict[str, str]:
    rack = index // per_rack
    return {ZONE: f"zone-{'abc'[rack % 3]}", RACK: f"rack-{rack:03}"}
