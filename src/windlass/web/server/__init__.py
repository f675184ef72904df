"""The HTTP server of the dashboard, read-only.

Addresses, parameters, headers and errors belong here; documents are made elsewhere. This is where
the dashboard does its network I/O.

    app                 all addresses of the API, and the page
    replay_routes       the addresses of the recorded past
    query_params        the parameters of requests
    errors              the errors, in one form
    security_headers    the headers of every response
    local_server        a dashboard on loopback, in a thread
"""

from windlass.web.server.app import STATIC, DashboardAccess, application
from windlass.web.server.errors import error_response
from windlass.web.server.local_server import run_local_server

__all__ = ["STATIC", "DashboardAccess", "application", "error_response", "run_local_server"]
