"""Foreign scenarios: what the tests of another scheduler expect, asked of ours.

Belongs here: the words of their format, their translation into a snapshot, the rounds that are
played, and the comparison. Does not belong here: any exception for a case; a difference is listed,
never hidden. No I/O: the command reads the file.
"""
