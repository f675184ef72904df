"""Pure functions from the cluster, and the plan, to what is written besides placements.

Belongs here: queue status, lending, quarantine of nodes. Does not belong here: any decision about
which gang runs, and any I/O. The daemon calls these and writes the results.

    lending        the GPUs that each queue lends to others
    node_checks    nodes that return to service only after a check Job
    quarantine     the nodes to quarantine, and those whose quarantine ends
    queue_status   the numbers in the status of each queue
"""
