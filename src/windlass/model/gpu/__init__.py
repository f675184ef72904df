"""The value and the expected use of parts of GPUs.

Belongs here: facts and small calculations about partly used GPUs that need nothing but the model.
Does not belong here: scores of nodes (`engine/nodes`), counts of arrivals (`state/request_mix`).
Pure, standard library only.

    remainder_prices  the value of a partly used GPU, given the shares that tasks ask for
    request_mix       the requests that placement expects
"""
