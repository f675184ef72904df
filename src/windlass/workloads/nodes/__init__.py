"""One node, converted to a node of the model.

Belongs here: functions of a node object, and of the metrics text of its DCGM exporter. Does not
belong here: the request for that text (`kube/client/dcgm_scraper.py`), and which pods run on the
node. Pure: no I/O.

    offers  the allocatable resources, GPUs, labels and taints of a node
    health  the trouble of a node, by its conditions, taints and annotations
    dcgm    the utilisation and XID errors that DCGM exporters report
"""
