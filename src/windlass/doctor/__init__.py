"""`windlass doctor`: is this cluster fit for Windlass, and does Windlass work on it?

    evidence   what was read of the cluster, as plain objects
    read       reads it
    rights     what the scheduler must be allowed to do
    checks     the table of checks; each is a pure function from the evidence to findings
    own        checks of Windlass itself: definitions, rights, leader, queues, pods that wait
    gpus       checks of the GPUs and of what NVIDIA's operator puts around them
    around     checks of the rest: the server's version, autoscalers

Only `read` and `rights` ask the API server, and nothing is written. A further check is a function
and its row in the table.
"""
