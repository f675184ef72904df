"""Trials of quality: packing on public traces, cost of preemption, accuracy of ETAs.

Belongs here: other placement policies to compare with, the referee that checks every placement, and
the protocols of the trials. `commands` prints their results. Pure but for reading trace files.
"""
