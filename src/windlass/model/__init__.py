"""The nouns of Windlass: what a cluster is, what happened to it, what to do about it.

Belongs here: frozen data and the facts that follow from it alone. Does not belong here: numpy,
indexes, decisions, any input or output. Standard library only.
"""
