"""The view of a viewer who may not see everything.

The view is redacted once per moment and scope; `documents` makes the same documents of it as of the
whole view. A document therefore needs no code here. Two kinds of documents are not made of a view
and are redacted by themselves: remembered cycles, and sentences about room. No I/O; `viewer` uses
threads, the rest is pure but for a cache.

    view      filters a view and the past of queues by a scope
    text      sentences without hidden names: reasons, and what room would take
    cycles    remembered cycles
    viewer    answers the requests of a viewer, with shared or redacted documents
"""

from windlass.web.redact.viewer import NOT_YET, VersionedDocument, ViewReader

__all__ = ["NOT_YET", "VersionedDocument", "ViewReader"]
