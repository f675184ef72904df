"""Scenario files: from YAML that people write to a workload, and to whether it went as expected.

Belongs here: the words of the format, reading them with their lines, complaints in one sentence,
building the workload, judging expectations. Does not belong here: playing it (`sim/run.py`).
"""
