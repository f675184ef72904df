"""What follows from a plan besides placing pods: pure functions, from the cluster to what to write.

Belongs here: the status of queues; later MIG layouts, capacity, idle nodes. Does not belong here:
any decision about who runs, and any I/O.
"""
