"""The engine decides: a cluster in, a plan out.

Belongs here: everything that chooses which gang runs where, which gang is evicted, and why others
wait. Does not belong here: clocks, files, sockets, logs, retries. No I/O: time is `cluster.now`,
and the same cluster always gives the same plan. The engine drafts on the cluster's own columns and
leaves them as it found them.

    cycle          one cycle as a story: start reading there
    plan           the result of a cycle
    plan_cache     the last plan, and when it is still valid
    gpu_amounts    the amount of GPU that a request takes on a kind of device

Sub-packages, from the top to the bottom; each imports only those below it:

    suggestions    the smallest changes that would start a gang (above `cycle`, which it calls)
    explain        the reasons why gangs wait, and previews of preemption
    preemption     room for gangs that found none: victims, rules, evictions
    placement      gangs on nodes: allocation, growth, reservations
    draft          changes of the cluster that can be undone, holds, eviction units
    nodes          the nodes for one task: filters, scores, devices, topology, pod affinity
    queueing       the gangs to consider and their order: progress, eligibility, shares, limits
"""
