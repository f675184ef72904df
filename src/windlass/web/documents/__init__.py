"""The documents of the API, made of a view of the cluster.

Only functions of a view, and of indexes that follow views, belong here. All names in a document
come from the view that it is made of, which may be redacted; sums may count hidden gangs. No I/O;
`cache` and `live_state` have locks, the rest is pure.

    live_state        the newest view and the remembered cycles; the scheduler's side
    cache             the documents of the newest moment, made once for all viewers
    gpu_map           every GPU and the tasks on it
    map_nodes         the layout of the nodes on the map
    device_runs       the GPUs of a task as runs of neighbours
    row_table         columns that are changed row by row
    queues            the tree of queues, and who borrows from whom
    jobs              the lists of jobs, one job, and the changes that would start a job
    decisions         the actions of a cycle, and the remembered cycles in short
"""

from windlass.web.documents.cache import ServedDocument, ShownMoment
from windlass.web.documents.decisions import cycle_document, decisions_document, summarize
from windlass.web.documents.jobs import JobLists, ListWindow
from windlass.web.documents.live_state import LiveState, RoomExplainer
from windlass.web.documents.queues import in_tree_order

__all__ = [
    "JobLists",
    "ListWindow",
    "LiveState",
    "RoomExplainer",
    "ServedDocument",
    "ShownMoment",
    "cycle_document",
    "decisions_document",
    "in_tree_order",
    "summarize",
]
