"""Decides: a cluster in, a plan out. `cycle.py` tells the story; each step is a file of its name.

Belongs here: everything that chooses. Does not belong here: clocks, files, sockets, logs, retries.
The engine drafts on the state's columns and leaves them as it found them.
"""
