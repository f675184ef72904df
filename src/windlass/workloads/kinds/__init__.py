"""The owners of pods, and the gangs that their pods form.

Belongs here: a table with one row per kind of owner, and pure functions of the owner's spec and
status that the rows consist of. Does not belong here: the lookup of owners (`kube/ingest`). Pure:
no I/O.

    table              the rows, and the membership of a pod in its gang
    gang_sizes         the number of pods of an owner that start together
    eviction_survival  the fate of an evicted pod, and the failures that its owner tolerates
    suspension         owners that are suspended to stop a gang whole, and our mark on them
    leaders            groups whose followers are made after their leader has a node
    declared           rows that users declare for kinds of their own
"""
