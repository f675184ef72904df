"""The device allocations of all nodes: which pod holds which GPU, and the history that led to it.

They prove or disprove that a scheduler books devices twice. A device is allocated when a pod is
admitted and returned when its containers have ended, whatever the API server says meanwhile. A
scheduler that books a device twice cannot corrupt the record; the second pod is refused, and the
refusal is recorded.

    free ──hand_out──▶ held ──give_back──▶ free          fail/heal apply to free and held devices;
                                                         a failed device is never allocated

Pure: no clock, no socket. The history is numbered, and `violations` reads nothing but the history.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from windlass_lab.fake_kubelet.allocation_audit import (
    AdmissionRefusal,
    AllocationEntry,
    AllocationEvent,
    Cause,
    audit,
)


class Unavailable(Exception):
    """Fewer healthy devices are free than were requested."""

    def __init__(self, asked: int, free: int) -> None:
        super().__init__(f"{asked} devices were asked for, but {free} are free and healthy")
        self.asked, self.free = asked, free


class DeviceAllocations:
    """The devices of all nodes, their holders, and the history of both."""

    def __init__(self) -> None:
        self.history: list[AllocationEntry] = []
        self.refusals: list[AdmissionRefusal] = []
        self._number = 0
        self._devices: dict[str, tuple[str, ...]] = {}
        self._holder: dict[str, str] = {}
        self._held: dict[str, dict[str, tuple[str, ...]]] = {}
        self._failed: set[str] = set()

    def __contains__(self, node: str) -> bool:
        return node in self._devices

    def add(self, node: str, devices: Sequence[str]) -> None:
        """Add a node with its devices."""
        if node in self._devices:
            raise ValueError(f"node {node} is in the book already; remove it first")
        self._devices[node] = tuple(devices)
        self._held[node] = {}
        self._write(AllocationEvent.ADDED, node, devices)

    def remove(self, node: str) -> None:
        """Remove a node: the machine is gone, with everything that ran there."""
        for holder in list(self._held[node]):
            self.give_back(node, holder)
        devices = self._devices.pop(node)
        del self._held[node]
        self._failed.difference_update(devices)
        self._write(AllocationEvent.REMOVED, node, devices)

    def hand_out(self, node: str, holder: str, count: int) -> tuple[str, ...]:
        """Allocate this many devices of the node to `holder` and return them; return those it holds
        already."""
        if (held := self._held[node].get(holder)) is not None:
            return held
        free = self.free(node)
        if count > len(free):
            raise Unavailable(count, len(free))
        devices = free[:count]
        self._held[node][holder] = devices
        self._holder.update(dict.fromkeys(devices, holder))
        self._write(AllocationEvent.HANDED_OUT, node, devices, holder)
        return devices

    def give_back(self, node: str, holder: str) -> tuple[str, ...]:
        """Return the devices that `holder` has on the node to the node; none, if it has none."""
        devices = self._held[node].pop(holder, ())
        for device in devices:
            del self._holder[device]
        self._write(AllocationEvent.GIVEN_BACK, node, devices, holder)
        return devices

    def fail(self, node: str, device: str) -> None:
        """Mark the device unhealthy: it stays with its holder and is not allocated again."""
        self._known(node, device)
        if device not in self._failed:
            self._failed.add(device)
            self._write(AllocationEvent.FAILED, node, (device,))

    def heal(self, node: str, device: str) -> None:
        """Mark the device healthy again."""
        self._known(node, device)
        if device in self._failed:
            self._failed.remove(device)
            self._write(AllocationEvent.HEALED, node, (device,))

    def refuse(self, node: str, holder: str, reason: str, cause: Cause) -> None:
        """Record that a pod was not admitted."""
        self.refusals.append(AdmissionRefusal(self._next(), node, holder, reason, cause))

    def devices(self, node: str) -> tuple[str, ...]:
        """Return all devices of the node, healthy or not."""
        return self._devices[node]

    def healthy(self, node: str) -> int:
        """Return the number of healthy devices of the node, held or not: its allocatable."""
        return sum(device not in self._failed for device in self._devices[node])

    def free(self, node: str) -> tuple[str, ...]:
        """Return the devices that could be allocated now."""
        return tuple(
            device
            for device in self._devices[node]
            if device not in self._holder and device not in self._failed
        )

    def held(self, node: str) -> dict[str, tuple[str, ...]]:
        """Return the devices of the node that are held, by holder."""
        return {holder: devices for holder, devices in self._held[node].items() if devices}

    def held_by(self, holder: str) -> tuple[str, ...]:
        """Return the devices of one holder, on any node."""
        return tuple(device for device, who in self._holder.items() if who == holder)

    def overbooked(self) -> list[AdmissionRefusal]:
        """Return the refusals that show a double booking."""
        return [refusal for refusal in self.refusals if refusal.cause is Cause.OVERBOOKED]

    def violations(self) -> list[str]:
        """Return everything in the history that must never happen; empty if all is well."""
        return [*audit(self.history)]

    def checkpoint(self) -> bytes:
        """Return all allocations as bytes, as a kubelet keeps them in its checkpoint file over a
        restart."""
        return msgspec.json.encode(_Checkpoint(self.history, self.refusals))

    @classmethod
    def restored(cls, checkpoint: bytes) -> DeviceAllocations:
        """Return the allocations of a checkpoint."""
        saved = msgspec.json.decode(checkpoint, type=_Checkpoint)
        book = cls()
        book.history, book.refusals = saved.history, saved.refusals
        book._number = max((line.number for line in (*saved.history, *saved.refusals)), default=0)
        for entry in saved.history:
            book._replay(entry)
        return book

    def _replay(self, entry: AllocationEntry) -> None:
        node, device, holder = entry.node, entry.device, entry.holder
        match entry.kind:
            case AllocationEvent.ADDED:
                self._devices[node] = (*self._devices.get(node, ()), *((device,) if device else ()))
                self._held.setdefault(node, {})
            case AllocationEvent.REMOVED:
                self._devices.pop(node, None)
                self._held.pop(node, None)
                self._failed.discard(device)
            case AllocationEvent.HANDED_OUT:
                held = self._held[node]
                held[holder] = (*held.get(holder, ()), device)
                self._holder[device] = holder
            case AllocationEvent.GIVEN_BACK:
                self._held[node].pop(holder, None)
                self._holder.pop(device, None)
            case AllocationEvent.FAILED:
                self._failed.add(device)
            case AllocationEvent.HEALED:
                self._failed.discard(device)

    def _known(self, node: str, device: str) -> None:
        if device not in self._devices.get(node, ()):
            known = ", ".join(self._devices.get(node, ())) or "no devices"
            raise ValueError(f"node {node} has no device {device}: it has {known}")

    def _write(
        self, kind: AllocationEvent, node: str, devices: Iterable[str], holder: str = ""
    ) -> None:
        lines = [AllocationEntry(self._next(), kind, node, device, holder) for device in devices]
        if not lines and kind in (AllocationEvent.ADDED, AllocationEvent.REMOVED):
            lines = [
                AllocationEntry(self._next(), kind, node, "")
            ]  # a node without devices exists, too
        self.history.extend(lines)

    def _next(self) -> int:
        self._number += 1
        return self._number


class _Checkpoint(msgspec.Struct, frozen=True):
    history: list[AllocationEntry]
    refusals: list[AdmissionRefusal]
