"""Custom resources: what users write into the API server, and what it answers them.

Belongs here: the pydantic models of `Queue`, `Topology`, `Policy` and `Gang` (group windlass.dev),
the CustomResourceDefinitions made from them, and pure functions between these objects and the
nouns of the model. Does not belong here: any request to an API server; no I/O at all.

    spec as JSON --read--> model.queues.Queue --judge--> what stands in `status.conditions`
    kinds (pydantic) --structural--> OpenAPI schema --manifest--> deploy/crds/*.yaml
"""
