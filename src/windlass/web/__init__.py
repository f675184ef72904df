"""The dashboard: documents about the cluster, and a server that hands them out.

    feed         the state behind the dashboard: views of the cluster, deltas, the past
    documents    documents made of a view by pure functions, and their cache
    redact       the view of a viewer who may not see everything
    auth         authentication and authorization of viewers
    schema       the documents of the API as types, and their OpenAPI description
    server       the addresses, read-only

One request, from top to bottom: `server` finds the document, `auth` tells who asks and what the
viewer may see, `redact` filters the view once for this scope, `documents` makes the document of it,
`feed` has taken the view when the scheduler called `LiveState.show`.

Nothing here decides anything, and nothing knows where the cluster comes from: whoever runs cycles
calls `LiveState.note` after each one and `LiveState.show` when viewers should see the result. The
page itself is in `ui/`; `make run` builds it into `static/`.
"""
