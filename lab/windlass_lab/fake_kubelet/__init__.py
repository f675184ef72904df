"""A fake kubelet that plays up to a thousand nodes against a real API server.

It renews leases, admits and runs pods as their annotations say, and records the allocation of
devices: the proof that no GPU was allocated twice. Nothing of a scheduler belongs here, and nothing
is shared with one but the transport (`windlass.kube.client`), so that the fake kubelet does not
repeat mistakes of the scheduler.

Pure: device_allocations, allocation_audit, requests, node_match, admit, pod_annotations, status,
pod_lifecycle, node_agent. With I/O: kubelet, status_writer, heartbeats, processes, clock.
"""

from windlass_lab.fake_kubelet.allocation_audit import Cause
from windlass_lab.fake_kubelet.device_allocations import DeviceAllocations
from windlass_lab.fake_kubelet.kubelet import Kubelet, play, playing
from windlass_lab.fake_kubelet.pod_annotations import Habits
from windlass_lab.fake_nodes.machines import Fleet, Machine, uniform

__all__ = [
    "Cause",
    "DeviceAllocations",
    "Fleet",
    "Habits",
    "Kubelet",
    "Machine",
    "play",
    "playing",
    "uniform",
]
