"""A fake kubelet that plays up to a thousand nodes against a real API server.

It registers nodes with GPU labels, renews leases, admits and runs pods as their annotations say,
and keeps a device book: the witness that no GPU was promised twice. Nothing of a scheduler belongs
here, and nothing is shared with one but the transport (`windlass.kube`): a witness reads with its
own eyes.

Pure: book, history, quantities, requests, suits, admit, script, status, sitter, host, fleet,
labels, nodes, environment. With I/O: kubelet, writer, heartbeats, register, fill, processes; clock
reads the clock.
"""

from windlass_lab.fake_kubelet.allocation_audit import Cause
from windlass_lab.fake_kubelet.defaults import Habits
from windlass_lab.fake_kubelet.device_allocations import DeviceAllocations
from windlass_lab.fake_kubelet.kubelet import Kubelet, play, playing
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
