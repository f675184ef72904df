"""One node, converted to a node of the model.

Belongs here: functions of a node object, and of the metrics text of its DCGM exporter. Does not
belong here: the request for that text (`kube/client/dcgm_scraper.py`), and which pods run on the
node. Pure: no I/O.

    offers  the allocatable resources, GPUs, labels and taints of a node
    health  the trouble of a node, by its conditions, taints and annotations
    dcgm    the utilisation and XID errors that DCGM exporters report
"""

from windlass.workloads.nodes.dcgm import (
    LONGEST,
    Exporter,
    Reading,
    exporter_of,
    read_report,
    suspects,
    trouble_of_gpus,
)
from windlass.workloads.nodes.health import (
    OUT_OF_SERVICE,
    quarantine_of,
    quarantine_text,
    trouble_of,
    trusted_since,
    worse,
)
from windlass.workloads.nodes.offers import MOST_GPUS, node_of

__all__ = [
    "LONGEST",
    "MOST_GPUS",
    "OUT_OF_SERVICE",
    "Exporter",
    "Reading",
    "exporter_of",
    "node_of",
    "quarantine_of",
    "quarantine_text",
    "read_report",
    "suspects",
    "trouble_of",
    "trouble_of_gpus",
    "trusted_since",
    "worse",
]
