"""The judge is kube-scheduler itself: what we place it would place there, and what we leave too.

300 cases by chance, or 2,000 with WINDLASS_PROOF=1; WINDLASS_SEED makes others. A case about which
the two disagree is printed as YAML with both answers.
"""

from __future__ import annotations

import os

import pytest

from tests.live.conftest import FindParts
from tests.live.support.judge_cases import make_case
from tests.live.support.kube_scheduler_judge import OPTIONS, Verdict, judge, prepare
from windlass.kube.client.client import connect
from windlass_lab.control_plane.binaries import NAMES
from windlass_lab.control_plane.plane import Plane

CASES = 2000 if os.environ.get("WINDLASS_PROOF") == "1" else 300
SEED = int(os.environ.get("WINDLASS_SEED", "0"))
AT_ONCE = 300
SHOWN = 3
"""Disagreements that are printed whole."""


async def test_kube_scheduler_agrees_with_what_we_place_and_with_what_we_leave_waiting(
    find_parts: FindParts,
):
    find_parts(NAMES)
    verdicts = await verdicts_about(CASES)
    placed = sum(bool(each.ours.node) for each in verdicts)
    assert CASES // 4 < placed < CASES - CASES // 4, "cases of one kind are too few to tell"
    wrong = [each for each in verdicts if not each.agree]
    if wrong:
        shown = "\n".join(str(each) for each in wrong[:SHOWN])
        pytest.fail(f"they disagree about {len(wrong)} of {CASES}\n{shown}", pytrace=False)


async def verdicts_about(count: int) -> list[Verdict]:
    cases = [make_case(number, SEED) for number in range(count)]
    found: list[Verdict] = []
    async with Plane(OPTIONS) as plane, connect(plane.api_access(), timeout_s=60) as api:
        await prepare(api)
        for start in range(0, count, AT_ONCE):
            found += await judge(api, cases[start : start + AT_ONCE])
    return found
