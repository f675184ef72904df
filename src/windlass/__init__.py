"""Windlass schedules GPU work on Kubernetes.

Events in, actions out, nothing between: `model`, `state`, `workloads`, `usage`, `engine`,
`controllers` and `forecast` are pure. `kube`, `sim`, `web`, `admission`, `history` and `metrics`
are the edges; only they touch a clock, a socket, a file or a log. `cli` and `daemon` put the parts
together. docs/architecture.md draws the layers and the path of a pod.
"""

__version__ = "0.1.0"
