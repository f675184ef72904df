"""The edge towards the Kubernetes API server.

    client    HTTP requests, credentials, watches, the leader lease and the queue of writes
    ingest    pure: translates objects of Kubernetes into events of the model
    writers   carries decisions out: binds, evictions, checkpoint requests, conditions

Here belongs everything that knows the format or the protocol of Kubernetes objects at run time.
Decisions do not belong here: the engine makes them, and `daemon` connects both sides. `client` and
`writers` do I/O, `ingest` does none.
"""
