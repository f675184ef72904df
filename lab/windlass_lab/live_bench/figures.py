"""The names of the figures, their medians over rounds, and their ratios."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median
from typing import TypeAlias

Figures: TypeAlias = dict[str, float]

DIGITS = {"per_s": 0, "bound": 0, "ms": 1, "mib": 0, "s": 2, "pod": 2}
"""The number of digits, by the end of a name."""
RATIOS = {
    "ratio_to_kube_scheduler": ("windlass_pods_per_s", "kube_scheduler_pods_per_s"),
    "ratio_to_bind_ceiling": ("windlass_pods_per_s", "bind_ceiling_per_s"),
    "cpu_ratio_to_kube_scheduler": ("kube_scheduler_all_cpu_ms_per_pod", "all_cpu_ms_per_pod"),
    "cpu_ratio_to_bind_ceiling": ("bind_ceiling_all_cpu_ms_per_pod", "all_cpu_ms_per_pod"),
}
"""The ratios, each taken within a round, because machines have faster and slower minutes.

Where cores are shared with others, CPU time is the steadier measure.
"""


def drawn_together(rounds: Mapping[str, list[float]]) -> Figures:
    """Return the median of each figure and of each ratio."""
    found = {name: _rounded(name, median(values)) for name, values in rounds.items() if values}
    for name, (above, below) in RATIOS.items():
        pairs = list(zip(rounds.get(above, ()), rounds.get(below, ()), strict=False))
        if pairs:
            found[name] = round(median(a / b for a, b in pairs), 2)
    return found


def _rounded(name: str, value: float) -> float:
    digits = next((count for end, count in DIGITS.items() if name.endswith(f"_{end}")), 2)
    return round(value, digits) if digits else round(value)
