"""Windlass schedules GPU work on Kubernetes.

Events in, actions out, nothing between: `model`, `state`, `workloads`, `usage`, `engine` and
`controllers` are pure. `kube`, `sim`, `web`, `admission`, `broker` and `metrics` are the edges;
they alone touch a clock, a socket, a file or a log. `cli` and `daemon` put the parts together.
"""

__version__ = "0.1.0"
