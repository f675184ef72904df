"""`windlass doctor`: checks that a cluster is fit for Windlass, and that Windlass works on it.

    evidence          the objects that were read of a cluster, and the findings of checks
    collect           reads the evidence (I/O)
    required_rights   the rights that the scheduler needs; asks the API server for them (I/O)
    catalog           the table of checks; each is a pure function: evidence -> findings
    windlass_checks   checks of Windlass itself: definitions, rights, leader, queues, pending pods
    gpu_checks        checks of the GPUs, and of the components of NVIDIA's GPU Operator
    cluster_checks    checks of the rest: the version of the API server, autoscalers

Only `collect` and `required_rights` send requests, and nothing is written. To add a check, write a
function and add its row to the table. Repairs do not belong here: a finding says what to do.
"""
