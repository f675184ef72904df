"""The event loop of the daemon: it reads the cluster, runs scheduler steps and writes.

    main           `windlass run`: signals, ports, election, and one term after the other
    leader_term    one term: watch, decide in a thread, write, until the lease is lost
    watches        one watch for each kind of object
    writers        one writer for each kind of write; results come back as inputs
    signing_key    loads the signing key at the start of a term
    read_cluster   reads the cluster once, for commands that only show it
    pause          pauses and resumes evictions, for the commands of that name

Here belong I/O and its order in time: asyncio tasks, threads, time-outs, the lease. This package
does I/O. Decisions do not belong here (`daemon/decide`), nor does the form of single requests
(`kube/client`, `kube/writers`), nor what is served to people and probes (`daemon/serving`).
"""

from windlass.daemon.loop.main import replica_of, run
from windlass.daemon.loop.pause import set_paused
from windlass.daemon.loop.read_cluster import (
    NO_CRDS,
    ClusterReading,
    ClusterUnreadable,
    ReadForbidden,
    follow_cluster,
    open_api,
    read_cluster,
)

__all__ = [
    "NO_CRDS",
    "ClusterReading",
    "ClusterUnreadable",
    "ReadForbidden",
    "follow_cluster",
    "open_api",
    "read_cluster",
    "replica_of",
    "run",
    "set_paused",
]
