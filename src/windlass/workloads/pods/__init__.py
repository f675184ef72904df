"""One pod, converted to a task of the model.

Belongs here: functions of one pod (and of the storage objects that it uses). Does not belong here:
its gang, which follows from its owners (`kinds`). Pure: no I/O.

    task           the task of a pod: identity, shape, state, end
    requests       the resources that a pod requests, added up as kube-scheduler does
    constraints    selectors, affinity, tolerations and spread constraints
    volumes        the constraints that follow from the volumes of a pod
    checkpointing  the annotations about checkpoints, and the answers to checkpoint requests
"""
