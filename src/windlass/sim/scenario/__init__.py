"""Scenario files: from YAML to a workload, and to a comparison with the expected result.

Belongs here: the words of the format (`schema`), reading them with their lines
(`yaml_lines`, `read`), errors in one sentence (`validation_errors`), building the workload
(`build`, `build_jobs`), changes and single jobs in the same words (`change`, `job`), and judging
expectations (`expectations`, `view`). Does not belong here: playing it (`sim/run.py`).
Pure.
"""

from windlass.sim.scenario.change import read_change
from windlass.sim.scenario.expectations import Difference, differences, snapshot_at
from windlass.sim.scenario.job import read_jobs
from windlass.sim.scenario.read import Scenario, read_scenario, scenario_schema
from windlass.sim.scenario.yaml_lines import MOST_BYTES, Spot, read_yaml

__all__ = [
    "MOST_BYTES",
    "Difference",
    "Scenario",
    "Spot",
    "differences",
    "read_change",
    "read_jobs",
    "read_scenario",
    "read_yaml",
    "scenario_schema",
    "snapshot_at",
]
