"""Manifests that are not submitted yet.

Belongs here: functions of the documents of a manifest file, and the manifests that `windlass
submit` generates. Does not belong here: reading files (`cli`). Pure: no I/O.

    expand    the owners and pods that the controllers would make of a manifest
    validate  the faults for which an API server would refuse a manifest
    submit    the Job and the Service of `windlass submit`
"""

from windlass.workloads.manifests.expand import (
    GANG,
    ROWS,
    CannotMake,
    ClusterDefaults,
    ExpandedManifests,
    ExpandedPods,
    expand_manifests,
    expand_owner,
    is_read,
    key_of,
    name_of,
)
from windlass.workloads.manifests.submit import SubmitRequest, job_of, longest_name, service_of
from windlass.workloads.manifests.validate import COUNTS, problems, repeated_names

__all__ = [
    "COUNTS",
    "GANG",
    "ROWS",
    "CannotMake",
    "ClusterDefaults",
    "ExpandedManifests",
    "ExpandedPods",
    "SubmitRequest",
    "expand_manifests",
    "expand_owner",
    "is_read",
    "job_of",
    "key_of",
    "longest_name",
    "name_of",
    "problems",
    "repeated_names",
    "service_of",
]
