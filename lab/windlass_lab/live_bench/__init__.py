"""Measurements of schedulers on a real API server: `windlass bench live`.

Every measurement has a control plane of its own, since an API server slows down with its history.
Windlass and kube-scheduler get the same pods in the same order, and run as processes of their own;
binding alone, with the places known beforehand, shows what the API server can take.

    environment     a fresh control plane with nodes and queues
    pods            the pods and their creation
    observer        the times at which pods are bound, refused or running, on a watch of its own
    schedulers      Windlass and kube-scheduler as processes
    backlog         a backlog, from the moment it has been read until everything is written
    reclaim, refusal, startup      the other measurements
    run_all         all of it in order, as figures
    figures         the names of the figures, and their ratios
    process_usage   CPU time and memory of a process

It does I/O. Nothing here decides anything, and nothing is asserted about time.
"""
