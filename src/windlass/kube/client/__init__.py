"""HTTP access to a Kubernetes API server, and to the DCGM exporters of its nodes.

    client            a session with the API server: get, post, put, patch, delete, stream, list
    request           one request and its answer: slots, credentials, guard and time-outs
    auth              the address of the API server, and credentials that are renewed in time
    kubeconfig        reads a kubeconfig or the service account of a pod
    errors            the errors of requests, as one tree
    watch             keeps the objects of one kind up to date, and reports the changes
    object_cache      the objects of one kind that a watch knows
    decode            JSON of lists and watches -> typed objects
    backoff           the waiting time after a failure
    write_queue       a bounded number of concurrent writes, in order of urgency
    leader_election   one leader at a time, by a Lease
    access_reviews    token and access reviews: authentication and authorization of viewers
    dcgm_scraper      reads the metrics of DCGM exporters

All modules do I/O, except `errors`, `object_cache`, `decode` and `backoff`. Callers bring their own
typed structs and get objects and errors, nothing of the transport. The meaning of the objects does
not belong here: see `kube/ingest`; nor do particular writes: see `kube/writers`.
"""

from windlass.kube.client.access_reviews import AccessReviews
from windlass.kube.client.auth import Access, load, namespace
from windlass.kube.client.backoff import Backoff
from windlass.kube.client.client import Api, Patch, connect, list_all
from windlass.kube.client.dcgm_scraper import DcgmScraper
from windlass.kube.client.errors import (
    ApiError,
    Conflict,
    Forbidden,
    Invalid,
    NoAccess,
    NotAllowed,
    NotFound,
    ServerFault,
    TooMany,
    Unanswered,
    Unauthorized,
)
from windlass.kube.client.leader_election import PAUSED, Election, LeaseRecord, LeaseTerms
from windlass.kube.client.object_cache import T, key_of
from windlass.kube.client.watch import Change, Key, ObjectGone, ObjectSeen, Watch
from windlass.kube.client.write_queue import Urgency, Write, WriteQueue

__all__ = [
    "PAUSED",
    "Access",
    "AccessReviews",
    "Api",
    "ApiError",
    "Backoff",
    "Change",
    "Conflict",
    "DcgmScraper",
    "Election",
    "Forbidden",
    "Invalid",
    "Key",
    "LeaseRecord",
    "LeaseTerms",
    "NoAccess",
    "NotAllowed",
    "NotFound",
    "ObjectGone",
    "ObjectSeen",
    "Patch",
    "ServerFault",
    "T",
    "TooMany",
    "Unanswered",
    "Unauthorized",
    "Urgency",
    "Watch",
    "Write",
    "WriteQueue",
    "connect",
    "key_of",
    "list_all",
    "load",
    "namespace",
]
