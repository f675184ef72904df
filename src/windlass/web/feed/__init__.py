"""The state behind the dashboard: written by the scheduler's thread, read by any.

Taking views, following changes and sending them to viewers belong here; making documents does not
(`documents`), and neither do rights (`auth`, `redact`). Locks and threads, but no other I/O.

    live_state       the newest view and the remembered cycles; the scheduler's side
    view             the cluster at one moment
    gang_members     the tasks of every gang, updated by what has changed
    timeseries       the past of queues, in bounded memory
    deltas           the encoding of documents, and the deltas between them
    change_signal    wakes the event loops of viewers
    throttle         one piece of work for viewers at a time, with pauses
    replay_source    the interface of the recorded past
"""
