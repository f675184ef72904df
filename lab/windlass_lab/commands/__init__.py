"""The commands of the instruments: `windlass bench`, `windlass cluster`, `windlass conformance`.

Belongs here: options and output. They are found through the entry point group `windlass.commands`.
"""
