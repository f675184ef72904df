"""From Kubernetes objects to gangs: pure functions and one table of job kinds.

Here belongs what is read of an object (`wire`), what a pod asks for (`requests`), where it may run
(`constraints`), what a node offers (`machines`), and which pods start together (`kinds`). Nothing
here talks to an API server, and nothing above `kube` sees these objects.
"""
