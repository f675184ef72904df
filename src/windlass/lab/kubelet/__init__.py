"""A fake kubelet that plays up to a thousand nodes against a real API server.

It registers nodes with GPU labels, renews leases, admits and runs pods as their annotations say,
and keeps a device book: the witness that no GPU was promised twice. Nothing of a scheduler belongs
here, and nothing is shared with one but the transport (`windlass.kube`): a witness reads with its
own eyes.

Pure: book, history, quantities, requests, suits, admit, script, status, sitter, host, fleet,
labels, nodes, environment. With I/O: kubelet, writer, heartbeats, register, fill, processes; clock
reads the clock.
"""

from windlass.lab.kubelet.book import Book
from windlass.lab.kubelet.fleet import Fleet, Machine, uniform
from windlass.lab.kubelet.habits import Habits
from windlass.lab.kubelet.history import Cause
from windlass.lab.kubelet.kubelet import Kubelet, play, playing

__all__ = ["Book", "Cause", "Fleet", "Habits", "Kubelet", "Machine", "play", "playing", "uniform"]
