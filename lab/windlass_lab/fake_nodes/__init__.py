"""The nodes that the fake kubelet plays: machines, labels, Node objects, and pods that fill them.

Belongs here: everything about nodes that exists before a pod is scheduled. What happens to pods on
these nodes is in `fake_kubelet`. Registering nodes and filling them does I/O.
"""
