"""The daemon, `windlass run`: it connects the API server, the engine and everything that is served.

    loop      the event loop: election, terms, watches and writers (I/O)
    decide    pure: inputs of one scheduler step -> decisions -> orders for the writers
    serving   what is served or done beside the loop: health, dashboard, forecasts, history (I/O)
    shadow    shadow mode: compares plans with the decisions of another scheduler

Only here do the edges (`kube`, `web`, `history`) meet the engine. All state of the scheduler lives
as long as a term: a new leader lists everything after it has the lease, and so cannot have missed a
write of its predecessor.
"""
