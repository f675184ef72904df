"""The kinds of change that may start a waiting gang; `explain/suggest.py` tries them.

Belongs here: one function per kind of change, and the tables of them. Does not belong here: the
search for the smallest change, and any rule of the engine. No I/O.

    catalog         the types that all kinds share
    job             changes of a job's order and size
    placement       changes of the nodes that a job may run on
    surroundings    changes of queues, settings and other gangs
"""
