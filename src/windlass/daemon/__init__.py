"""The daemon, `windlass run`: puts the parts together on a real cluster.

    watches    everything that is watched
    brain      what was seen -> what to do: the engine's half, plain functions, off the event loop
    promised   what was promised to whom
    kept       places whose bind failed
    statuses   the status of queues
    term       one time of leading: watches, brain and writes, until the lease is lost
    run        election, port and signals around it
    leads      who leads, for those who only ask
    once       the cluster read once, for commands that only look
    serve      health, readiness and metrics
    dashboard  the dashboard on a port of its own; `showing` puts the cluster on it, `ended` what is
               over, `forward` passes viewers on to the leader, `recorded` looks back in the record
    webhook    `windlass webhook`, the admission webhook with its certificates

Only here do the edges meet the engine. State lives as long as a term: whoever begins to lead lists
everything after it has the lease, and so cannot have missed what its predecessor wrote.
"""
