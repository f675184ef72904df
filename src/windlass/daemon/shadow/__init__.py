"""Shadow mode: what Windlass would have decided beside another scheduler.

    compare   collects the differences between our plans and the actual placements, gang by gang
    report    the differences as sentences and numbers, for the port and the log

Nothing is written to the cluster, and no plan is assumed to take effect. The package does no I/O,
except that `report` writes log lines at the end.
"""

from windlass.daemon.shadow.compare import Shadow
from windlass.daemon.shadow.report import report_of, sum_up

__all__ = ["Shadow", "report_of", "sum_up"]
