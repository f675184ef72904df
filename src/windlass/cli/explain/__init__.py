"""The subject of `windlass explain`: a cluster with its plan, and jobs that are not submitted yet.

Belongs here: building the cluster that a job is explained in, and adding a job of a file to a copy
of it. Does not belong here: wording, which is in `commands/explain.py` and `render`. It may read
files and a live cluster; it writes nothing.

    context          the cluster, the plan for it, and the names of its jobs
    manifest         a job of a file, added to a copy of the cluster (`explain --before`)
    manifest_files   the documents of such a file, and the problems in them
"""
