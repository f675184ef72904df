"""The history: the recorded inputs and plans of all cycles, in a ring of bounded size.

A *stretch* is a start (a complete snapshot of the cluster) and the cycles that followed it. It can
be replayed without any other stretch, and the ring drops whole stretches.

Belongs here: recording, storing and reading cycles, and replaying them with the same engine. Does
not belong here: replaying under another policy (`sim/from_recording.py`), and rendering (`cli`,
`web`). I/O: `store` and `tables` use a database (SQLite or PostgreSQL), `writer` has a thread; the
other modules are pure.

    recorder  notes the events since the last cycle, and the plan, after each cycle
    record    a cycle and a start as values and as bytes
    writer    a thread with a bounded queue, so that a slow database never delays a cycle
    store     the stretches and cycles in a database
    tables    the tables and their migrations
    location  the URL of a database, and errors without its secrets
    replay    recorded cycles through the same engine, compared plan by plan
"""
