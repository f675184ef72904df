"""The authentication and authorization of viewers.

Rules about documents do not belong here: this package tells who a viewer is and which scope the
viewer may see, and `redact` applies the scope. It does no I/O itself; an `AccessReviewer` that
asks the API server is passed in.

    authentication    tokens: which viewer a request comes from
    authorization     rights: the namespaces, queues and nodes that a viewer may see
    sessions          the sessions behind the cookies of the browser
    sign_in           the addresses to sign in and out
    ttl_cache         answers that are cached for a while and shared by concurrent requests
"""

from windlass.web.auth.authentication import AccessDenied, Authenticator
from windlass.web.auth.authorization import AccessRights, Names, VisibleScope, namespace_of
from windlass.web.auth.sign_in import read_body, sign_in_routes, viewer_route

__all__ = [
    "AccessDenied",
    "AccessRights",
    "Authenticator",
    "Names",
    "VisibleScope",
    "namespace_of",
    "read_body",
    "sign_in_routes",
    "viewer_route",
]
