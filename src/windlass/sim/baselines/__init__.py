"""Baseline schedulers, to compare with.

Belongs here: functions from the cluster to a plan that model other schedulers: `kube_default`
(kube-scheduler with its default profile) and `srsf` (shortest remaining service first). Pure.
"""

from windlass.sim.baselines.kube_default import default
from windlass.sim.baselines.srsf import srsf

__all__ = ["default", "srsf"]
