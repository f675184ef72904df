"""Writers: they carry decisions out on the API server.

    binder               writes the promise of a gang, binds its pods, and reads pods again
    volume_claims        has volumes provisioned for the node of a pod before it is bound
    evictor              evicts victims: promise, announcement, trial, eviction or suspension
    eviction_api         one pod and the Eviction API: the meaning of each answer
    disruption_budgets   pure: whether budgets allow that some pods go at once
    force_delete         deletes pods that do not end, and shortens their grace
    suspend              suspends and resumes the owners of gangs
    checkpoint           writes checkpoint requests on pods, and notes checkpoints that were saved
    checkpoint_http      sends the same requests to the endpoints of pods
    placement_promises   pure: the text of a promise, and the hold that it stands for
    conditions           pure: the texts of conditions and Events, and the time to write them
    status_writer        writes conditions, Events and statuses
    signing              signs the marks of suspended owners; keeps the key in a Secret

Decisions do not belong here: each writer gets a complete order, sets it going without waiting, and
reports failures and answers through a callback. No writer decides again by itself; it only retries
a request that cannot take effect twice. The writers share one `WriteQueue`. This package does I/O.
"""
