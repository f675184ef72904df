"""The custom resources of the group windlass.dev: `Queue`, `Topology`, `Policy` and `Gang`.

Belongs here: the pydantic models of these objects, the CustomResourceDefinitions that are generated
from the models, and pure functions that convert between the objects and the dataclasses of
`windlass.model`. Does not belong here: requests to an API server (`kube`, `daemon`). The package
does no I/O.

    spec as JSON --read--> model.queues.Queue --queue_validation--> status.conditions of the object
    definitions --structural_schema--> OpenAPI schema --manifest--> deploy/crds/*.yaml

The docstrings of the models and of their fields become the descriptions in deploy/crds, which
`kubectl explain` prints. After a change run `windlass crds --out deploy/crds`.

    base               what the models share: strict parsing, patterns of names, conditions
    amounts            amounts of GPUs, CPU and memory as users write them
    queue              the model of `Queue`: spec and status
    gang               the models of `Gang` and `Topology`
    policy             the model of `Policy`
    definitions        the table of the four kinds: names, columns of `kubectl get`, rules
    cel_rules          validation rules in CEL, which the API server evaluates
    structural_schema  the conversion of pydantic's JSON schema to a structural OpenAPI schema
    manifest           the CustomResourceDefinitions as YAML
    read               the conversion of specs to the dataclasses of the model
    queue_validation   checks that need all queues, and the condition `Ready`
    queue_access       the queues that a namespace may use, and the queue of a pod
    queue_status       the status of a queue, and the usage ledger in it
"""
