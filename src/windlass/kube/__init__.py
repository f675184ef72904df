"""The edge towards a Kubernetes API server: access, requests and watches.

Here belongs whatever speaks HTTP to the API server. What the answers mean is decided elsewhere:
callers bring their own typed structs and get objects and errors, nothing of the transport.
This package does I/O.
"""
