"""The dashboard's edge: what a cycle left, as documents; and a server that hands them out.

The documents are made by pure functions of a cluster and its plan (`cluster`, `queues`, `jobs`,
`decisions`), in words defined once (`documents`). `Board` keeps the newest of each and a bounded
past; `app` serves it, read-only. Nothing here decides, and nothing knows where the cluster comes
from: whoever runs cycles calls `Board.note` after each and `Board.show` when it is worth a look.
The page itself is in `ui/`; `make run` builds it into `static/`.
"""
