"""The state of a cluster as the engine sees it.

Belongs here: applying events, assuming that a plan is carried out, the arrays and indexes that
placement reads, snapshots as data. Does not belong here: decisions (those are `engine`), and any
Kubernetes object. Pure: no clock, no files, no logs; time comes in as an event.

    cluster               the root object: events in, everything else follows
    inventory             nodes, queues, gangs and tasks, and the indexes that follow each change
    snapshot              the whole state as one value, and that value as JSON
    task_index            tasks by gang, queue, node and state
    node_layout           the arrays over nodes, built when they are needed and then kept current
    node_columns          those arrays: free amounts, device states, labels and taints by node
    device_states         the device states of a node, interned as one integer
    pod_affinity          counts per domain for pod affinity and topology spread
    queue_accounts        the amounts that each queue holds, at every level of the tree
    checkpoint_requests   the gangs that were asked for a checkpoint and were not evicted yet
    churn_guard           the gangs that may not preempt until something changes from outside
    failures              recent failures, as evidence against nodes and gangs
    request_mix           the requests that arrived lately, as a guess at those to come
"""
