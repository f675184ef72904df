"""A real control plane on this machine, for tests, development and benchmarks.

Belongs here: etcd, kube-apiserver, kube-controller-manager and kube-scheduler, found or built
and run on loopback (`plane`), and nodes played by a fake kubelet (`kubelet`). Does not belong
here: anything that a production cluster needs. It does I/O: processes, files and sockets.
"""
