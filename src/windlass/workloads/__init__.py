"""The conversion of Kubernetes objects to the model: nodes, tasks, and the gangs of tasks.

Belongs here: the fields that Windlass reads of Kubernetes objects, and pure functions from these
objects to `windlass.model`. Does not belong here: requests to an API server and caches of objects
(`kube`), and the custom resources of Windlass (`crds`). Layers above `kube` do not see these
objects. The package does no I/O; the time is an argument.

A sub-package imports only those above it in this list:

    objects    the objects as structs; labels and annotations; helpers to read specs of any shape
    pods       one pod: its request, constraints, volumes, state and checkpoint settings
    nodes      one node: its capacity, its health, and the reports of its DCGM exporter
    kinds      the owners of pods: gang sizes, survival of evictions, suspension
    manifests  manifests before they are submitted: validation, expansion to pods, `windlass submit`
"""
