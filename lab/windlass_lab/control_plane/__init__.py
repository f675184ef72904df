"""A real Kubernetes control plane on this machine, for tests, development and benchmarks.

Belongs here: finding or building etcd, kube-apiserver, kube-controller-manager, kube-scheduler and
the controllers of other projects, and running them on loopback. The folders `controlplane`,
`controllers` and `helm` pin what is built. It does I/O: processes, files and sockets.
"""
