"""Foreign scenarios: the expectations of another scheduler's tests, compared with our engine.

Belongs here: the schema of their format, their translation into a snapshot, the rounds that are
played, and the comparison. Does not belong here: any exception for a case; a difference is listed,
never hidden. No I/O: the command reads the file.
"""
