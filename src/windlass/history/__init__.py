"""The recorded past: what went into the core, and what came out, in a bounded ring.

    recorder   after each cycle: what the cluster heard since the last one, and the plan
    record     the pure half: a cycle and a start as values and as bytes
    writer     a thread with a bounded queue: the database never keeps a cycle waiting
    store      tables, migrations and the ring, in SQLite or PostgreSQL
    again      the recorded cycles through the same engine, plan by plan

A *stretch* is a start (a snapshot, without loss) and the cycles that followed it. It can be played
again by itself, and it is dropped whole. Does not belong here: playing under another policy
(`sim/from_recording.py`), and showing anything.
"""
