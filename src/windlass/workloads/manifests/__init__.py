"""Manifests that are not submitted yet.

Belongs here: functions of the documents of a manifest file, and the manifests that `windlass
submit` generates. Does not belong here: reading files (`cli`). Pure: no I/O.

    expand    the owners and pods that the controllers would make of a manifest
    validate  the faults for which an API server would refuse a manifest
    submit    the Job and the Service of `windlass submit`
"""
