"""The daemon, `windlass run`: puts the parts together on a real cluster.

    eyes     everything that is watched
    brain    what was seen -> what to do: the engine's half, plain functions, off the event loop
    desk     the status of queues
    term     one time of leading: eyes, brain and writes, until the lease is lost
    run      election, port and signals around it
    serve    health, readiness and metrics

Only here do the edges meet the engine. State lives as long as a term: whoever begins to lead lists
everything after it has the lease, and so cannot have missed what its predecessor wrote.
"""
