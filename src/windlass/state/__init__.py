"""The cluster as the core knows it: events change it, columns and indexes follow.

Belongs here: applying events, assuming plans, the arrays that placement reads, snapshots as data.
Does not belong here: decisions. Pure: no clock, no files, no logs.
"""
