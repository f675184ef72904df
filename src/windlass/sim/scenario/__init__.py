"""Scenario files: from YAML to a workload, and to a comparison with the expected result.

Belongs here: the words of the format (`schema`), reading them with their lines
(`yaml_lines`, `read`), errors in one sentence (`validation_errors`), building the workload
(`build`, `build_jobs`), changes and single jobs in the same words (`change`, `job`), and judging
expectations (`expectations`, `view`). Does not belong here: playing it (`sim/run.py`).
Pure.
"""
