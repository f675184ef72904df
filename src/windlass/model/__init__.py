"""The nouns of Windlass: the objects of a cluster, the events that change it, the actions to take.

Belongs here: frozen data, the facts that follow from it alone, and the units it is written in. Does
not belong here: numpy, indexes, decisions, any input or output. Standard library only. Fields of
these classes are written into snapshots and recordings: renaming one breaks old files.

    jobs              tasks, gangs and the states of a task
    nodes             nodes, their trouble and their quarantine, and topologies
    queues            the queue tree and its dimensions
    resources         the request of one task
    constraints       selectors, affinity, taints and spread, as in Kubernetes
    gpus              GPU devices, requests for them, and the slices that tasks are given
    settings          the engine's settings
    events            what happened to a cluster
    actions           what the engine decided to do
    reasons           why a gang waits, as data with a sentence
    units             durations, timestamps, quantities and amounts as text and as integers
    errors            the errors that a user can correct
    viewers           users of the dashboard and the rights they need
    gpu/              MIG profiles, GPU resource names, the value of partly used GPUs
    validation/       checks of snapshots and scenarios
"""
