"""Snapshots that an earlier version wrote still load, and the engine decides the same about them.

The files in tests/data/plans were recorded by the last commit before the code was restructured.
Texts of reasons may change; actions, holds, reason codes and their numbers may not.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from tests.support.checkout import ROOT
from windlass.engine.cycle import plan
from windlass.engine.plan import Plan
from windlass.model.actions import Bind, Evict, RequestCheckpoint, WithdrawCheckpoint
from windlass.state.cluster import Cluster
from windlass.state.snapshot import from_json

RECORDED = sorted((ROOT / "tests/data/plans").glob("*.json"))


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.stem)
def test_engine_decides_as_recorded(path):
    recorded = json.loads(path.read_text())
    cluster = Cluster.of(from_json(json.dumps(recorded["snapshot"]).encode()))
    assert json.loads(json.dumps(as_document(plan(cluster)))) == recorded["plan"]


def test_more_than_ten_plans_are_recorded():
    assert len(RECORDED) > 10


def as_document(made: Plan) -> dict[str, Any]:
    return {
        "actions": [_action(action) for action in made.actions],
        "holds": [
            [hold.gang, hold.starts_at, hold.firm, [_claim(claim) for claim in hold.claims]]
            for hold in made.holds
        ],
        "decisions": [
            [
                *(decision.gang, decision.queue, str(decision.verdict), decision.position),
                [[str(reason.why), dict(reason.values)] for reason in decision.reasons],
            ]
            for decision in made.decisions
        ],
        "shares": {queue: dict(share) for queue, share in made.shares.items()},
        "wake_at": made.wake_at,
        "searched": msgspec.to_builtins(made.searched),
        "gave_way": msgspec.to_builtins(made.gave_way),
    }


def _action(action: Bind | Evict | RequestCheckpoint | WithdrawCheckpoint) -> list[Any]:
    match action:
        case Bind():
            return ["bind", action.task, action.node, msgspec.to_builtins(action.devices)]
        case Evict():
            return ["evict", *_eviction(action)]
        case RequestCheckpoint():
            asked = action.parting
            evictions = [_eviction(each) for each in asked.evictions]
            return ["ask", asked.gang, asked.id, asked.asked_at, asked.deadline, evictions]
        case WithdrawCheckpoint():
            return ["withdraw", action.gang, action.id]


def _eviction(action: Evict) -> list[Any]:
    return [action.task, str(action.rule), action.gainer, action.moves_to]


def _claim(claim: Any) -> list[Any]:
    return [claim.task, claim.node, msgspec.to_builtins(claim.devices)]
