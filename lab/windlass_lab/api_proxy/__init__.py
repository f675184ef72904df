"""A proxy in front of the API server that records every call and can make any of them fail.

Belongs here: the proxy, the words in which calls are named (those of the audit log), and the faults
that it can inject. It does I/O on loopback.
"""
