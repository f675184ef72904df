"""What a scheduler does on a real API server, measured: `windlass bench live`.

Every measurement has a control plane of its own, since an API server slows down with its history.
Windlass and kube-scheduler get the same pods in the same order, and run as processes of their own;
binding alone, with the places known beforehand, shows what the API server can take.

    scene        a fresh control plane with nodes and queues, and what is needed to act on it
    pods         the pods, and how they are made
    eyes         who is bound, refused or running, seen on a watch of our own
    contenders   Windlass and kube-scheduler as processes
    race         a backlog, from the moment it has been read until everything is written
    reclaim, refusal, begin      the other questions
    course       all of it in order, as figures
    figures      what the figures are called, and their ratios

It does I/O. Nothing here decides anything, and nothing is asserted about time.
"""
