"""Tables and small calculations about GPUs.

Belongs here: MIG profiles, the GPUs behind Kubernetes resource names, and the value of partly used
GPUs: everything that needs nothing but the model.
Does not belong here: scores of nodes (`engine/nodes`), counts of arrivals (`state/request_mix`).
Pure, standard library only.

    mig               the MIG profiles of each GPU model and their legal places
    resources         the GPUs behind Kubernetes resource names, and what queues are charged
    remainder_prices  the value of a partly used GPU, given the shares that tasks ask for
    request_mix       the requests that placement expects
"""
