"""Suggestions for a waiting job: one small case per kind of change, then the laws.

The laws hold for 200 waiting jobs of generated clusters (1,000 with WINDLASS_PROOF=1), against
plain loops over everything that could be different (`tests/support/what_if_oracle.py`).
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator
from random import Random

import pytest

from tests.given import RACKS, Job, Thing, ask, job, node, queue, rack, snapshot
from tests.support import random_parts
from tests.support.preemption_given import OTHER, OWNER, runs
from tests.support.strategies import PRESSING, Recipe, crowd_of
from tests.support.what_if_oracle import Altered, Rungs, afresh, starts
from windlass.engine.cycle import plan
from windlass.engine.plan import Verdict
from windlass.engine.suggestions.catalog import ChangeKind, SuggestedChange
from windlass.engine.suggestions.suggest import Suggestion, Suggestions, suggest
from windlass.model.constraints import Constraints, Taint
from windlass.model.events import GangSeen, TaskSeen
from windlass.model.jobs import ACTIVE, Domain, GangId, TaskState
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.settings import Settings
from windlass.state.cluster import Cluster
from windlass.state.snapshot import Snapshot

JOBS = 1000 if os.environ.get("WINDLASS_PROOF") == "1" else 200
EVERY = 10
"""One of this many jobs is searched for changes that were not suggested, kind by kind."""
NEW = GangId("new")
FIRM = Settings(displacing=())
"""Settings without any preemption."""


def suggested(*things: Thing, settings: Settings = FIRM) -> dict[ChangeKind, str]:
    """Return the suggestions for gang `new` at time 1000, by kind."""
    found = suggest(snapshot(*things, now=1000, settings=settings), NEW)
    assert found.complete
    return {each.change.kind: str(each) for each in found.suggestions}


def new(tasks: int, gpus: int, **fields: object):
    return job("new", tasks, ask(gpus=gpus), **({"queue": "a", "created_at": 900} | fields))


A, B = queue("a"), queue("b")


def test_fewer_gpus_per_task_are_suggested_no_fewer_than_fit():
    found = suggested(A, node("n1", gpus=3), new(1, 8))
    assert found[ChangeKind.GPUS] == "it would start at once with 3 GPUs per task instead of 8"


def test_a_smaller_minimum_is_suggested_no_smaller_than_needed():
    found = suggested(A, node("n1", gpus=3), new(5, 1))
    assert (
        found[ChangeKind.MINIMUM] == "it would start at once with a minimum of 3 tasks instead of 5"
    )


def test_another_model_is_suggested():
    things = node("n1", gpus=2, model="H100-80GB"), node("n2", gpus=2)
    wants = job("new", 1, ask(gpus=2, models=("H100-80GB",)), queue="a")
    found = suggested(A, *things, runs("old", 0, 1, queue="a"), wants)
    assert found[ChangeKind.MODEL] == (
        "it would start at once on A100-80GB GPUs instead of H100-80GB"
    )


def test_another_queue_is_suggested_if_the_job_may_be_submitted_to_it():
    things = queue("a", limit_gpus=1), B, queue("c"), node("n1", gpus=4), new(1, 2)
    assert suggested(*things)[ChangeKind.QUEUE] == "it would start at once in queue b"
    found = suggest(snapshot(*things, now=1000), NEW, queues=["a", "c"])
    assert str(found.suggestions[0]) == "it would start at once in queue c"


def test_a_limit_is_raised_by_what_is_lacking():
    things = queue("a", limit_gpus=3), node("n1", gpus=8), runs("old", 0, 1, queue="a")
    assert suggested(*things, new(1, 4))[ChangeKind.LIMIT] == (
        "it would start at once if the limit of queue a were 6 GPUs instead of 3"
    )


def test_more_lending_is_suggested_for_a_queue_that_keeps_its_idle_guarantee():
    things = A, queue("b", gpus=4, lend_gpus=1), node("n1", gpus=4)
    assert suggested(*things, new(1, 3))[ChangeKind.LEND] == (
        "it would start at once if queue b lent 3 GPUs of its idle guarantee instead of 1"
    )


def test_a_guarantee_is_raised_for_a_job_that_must_stay_within_it():
    found = suggested(queue("a", gpus=1), node("n1", gpus=4), new(1, 3, preemptible=False))
    assert found[ChangeKind.GUARANTEE] == (
        "it would start at once if the guarantee of queue a were 3 GPUs instead of 1"
    )
    assert found[ChangeKind.PREEMPTIBLE] == "it would start at once if it could be preempted"


def test_a_guarantee_is_suggested_that_allows_reclaim():
    held = runs("old", 0, 1, 2, 3, tasks=4, queue="b")
    usual = Settings(usage_effect=0, dwell_s=10_000)
    found = suggested(A, B, node("n1", gpus=4), held, new(1, 3), settings=usual)
    assert found[ChangeKind.GUARANTEE] == (
        "it would start if the guarantee of queue a were 3 GPUs instead of 0, "
        "once 4 tasks of old have gone"
    )


def reserved(late: Job) -> dict[ChangeKind, Suggestion]:
    """Return two of four GPUs in use until 2000, when `big` of queue b gets all, and then `new`."""
    settings = Settings(displacing=(), reserve_after_s=100)
    old = runs("old", 0, 1, tasks=2, queue="b", duration_s=2000)
    big = job("big", 1, ask(gpus=4), queue="b", created_at=1)
    cluster = Cluster.of(snapshot(A, B, node("n1", gpus=4), old, big, now=1000, settings=settings))
    cluster.assume(plan(cluster))
    cluster.apply(GangSeen(late.gang))
    cluster.apply(TaskSeen(late.tasks[0]))
    return {each.change.kind: each for each in suggest(cluster.snapshot(), NEW).suggestions}


def test_a_gang_whose_reservation_may_be_delayed_is_named():
    found = reserved(new(1, 2))[ChangeKind.GUARANTEE]
    assert (found.start.later, found.start.delays) == ((), ("big",))
    assert str(found) == (
        "it would start at once if the guarantee of queue a were 2 GPUs instead of 0; "
        "big may then start later than reserved"
    )


def test_a_job_that_ends_before_a_reservation_starts_delays_none():
    found = reserved(new(1, 3, duration_s=100))[ChangeKind.GPUS]
    assert str(found) == "it would start at once with 2 GPUs per task instead of 3"
    assert found.start.delays == ()


def test_a_preferred_domain_is_suggested_instead_of_a_required_one():
    racks = *rack("r1", "n1", gpus=1), *rack("r2", "n2", gpus=1)
    found = suggested(A, RACKS, *racks, new(2, 1, domain=Domain("net", "rack")))
    assert found[ChangeKind.DOMAIN] == (
        "it would start at once if it preferred to be within one rack, instead of requiring it"
    )


def test_a_selector_is_dropped_where_other_nodes_have_room():
    wants = new(1, 1, constraints=Constraints(selector=(("pool", "1"),)))
    found = suggested(A, node("n1", gpus=1, labels={"pool": "2"}), wants)
    assert found[ChangeKind.SELECTOR] == "it would start at once without pool in its node selector"


def test_a_toleration_is_suggested():
    found = suggested(A, node("n1", gpus=1, taints=(Taint("dedicated", "ml"),)), new(1, 1))
    assert found[ChangeKind.TAINT] == (
        "it would start at once if it tolerated the taint dedicated=ml:NoSchedule"
    )


def test_the_lowest_priority_that_preempts_is_suggested():
    held, usual = runs("old", 0, queue="a", priority=3), Settings()
    found = suggested(A, node("n1", gpus=1), held, new(1, 1), settings=usual)
    assert found[ChangeKind.PRIORITY] == (
        "it would start with priority 4 instead of 0, once 1 task of old has gone"
    )


def test_preempting_at_once_is_suggested_for_a_job_that_waits_for_free_room_first():
    wants = new(1, 2, queue="owner", displaces_after_s=None)
    held = runs("old", 0, 1, tasks=2, queue="other")
    found = suggested(OWNER, OTHER, node("n1", gpus=2), held, wants, settings=Settings())
    assert found[ChangeKind.HASTE].startswith("it would start if it displaced others at once")


def test_a_kind_of_preemption_that_the_settings_forbid_is_suggested():
    held = runs("old", 0, 1, tasks=2, queue="other")
    found = suggested(OWNER, OTHER, node("n1", gpus=2), held, new(1, 2, queue="owner"))
    assert found[ChangeKind.DISPLACING] == (
        "it would start if the settings allowed Windlass to reclaim, once 2 tasks of old have gone"
    )


def test_a_running_gang_that_may_not_be_preempted_is_named():
    held = runs("small", 0, queue="a"), runs("large", 1, 2, 3, queue="b")
    found = suggested(A, B, node("n1", gpus=4), *held, new(1, 3))
    assert found[ChangeKind.STOP] == (
        "it would start at once if large (queue b, 3 GPUs) stopped, which it may not displace now"
    )


def test_two_gangs_that_only_together_free_enough_are_named_together():
    held = runs("one", 0, queue="a"), runs("two", 1, queue="b")
    found = suggested(A, B, node("n1", gpus=2), *held, new(1, 2))
    assert "one (queue a, 1 GPU) and two (queue b, 1 GPU) stopped" in found[ChangeKind.STOP]


def test_a_gang_that_would_start_later_is_named():
    first = job("first", 1, ask(gpus=2), queue="a", created_at=800)
    found = suggested(A, node("n1", gpus=3), first, new(2, 1))
    assert (
        found[ChangeKind.MINIMUM] == "it would start at once with a minimum of 1 task instead of 2"
    )
    assert found[ChangeKind.PRIORITY] == (
        "it would start at once with priority 1 instead of 0; first would then start later"
    )


def test_the_smallest_change_comes_first():
    held = runs("old", 0, 1, 2, 3, queue="b")
    things = A, B, node("n1", gpus=6), held, new(3, 1)
    found = suggest(snapshot(*things, now=1000, settings=FIRM), NEW)
    sizes = [each.change.size + each.start.milli for each in found.suggestions]
    assert sizes == sorted(sizes)
    assert found.suggestions[0].change.kind is ChangeKind.MINIMUM


def test_a_job_that_starts_anyway_or_is_refused_has_no_suggestions():
    things = A, node("n1", gpus=2)
    assert suggest(snapshot(*things, new(1, 2)), NEW) == Suggestions(plans=1, needed=False)
    refusal = Reason(ReasonCode.NO_VOLUME, {"what": "its claim is not bound"})
    found = suggest(snapshot(*things, new(1, 4, refusal=refusal)), NEW)
    assert (found.suggestions, found.sentences()) == ((), [])


def test_the_number_of_plans_is_bounded():
    held = runs("old", 0, 1, 2, 3, queue="b")
    here = snapshot(A, B, node("n1", gpus=4), held, new(4, 1), now=1000, settings=FIRM)
    found = suggest(here, NEW, most_plans=3)
    assert found.plans == 3
    assert not found.complete


# --- the laws -------------------------------------------------------------------------------------


def test_a_suggestion_starts_the_job_and_one_unit_less_does_not():
    kinds: Counter[str] = Counter()
    silent = 0
    for number, (here, gang) in enumerate(waiting_jobs(JOBS)):
        found = suggest(here, gang, most_plans=10_000).suggestions
        ladders = all_ladders(here, gang)
        for each in found:
            kinds[each.change.kind.value] += 1
            check(each.change, ladders, gang)
        silent += not found
        if not found or number % EVERY == 0:
            named = {each.change.kind.value for each in found}
            missed = [
                words
                for rungs in ladders
                for words, altered in rungs
                if words[0] not in named and starts(altered, gang)
            ]
            assert missed == [], f"{gang} of {here}"
    print(f"{JOBS} jobs, {silent} of them without a suggestion; kinds of change: {dict(kinds)}")
    assert len(kinds) >= 5


def test_binary_search_finds_a_smallest_change(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(sys.modules[suggest.__module__], "SCANNED", 1)
    for here, gang in waiting_jobs(JOBS // 10, seed=7000):
        ladders = all_ladders(here, gang)
        for each in suggest(here, gang, most_plans=10_000).suggestions:
            check(each.change, ladders, gang)


def check(change: SuggestedChange, ladders: list[Rungs], gang: str) -> None:
    """Assert that the change, made by hand, starts the gang and that one unit less does not."""
    rungs, at = next(
        (rungs, at)
        for rungs in ladders
        for at, (words, _) in enumerate(rungs)
        if words == words_of(change)
    )
    assert starts(rungs[at][1], gang), f"{change.says} does not start {gang}"
    if at:
        assert not starts(rungs[at - 1][1], gang), f"less than {change.says} starts {gang}"
    if change.kind is ChangeKind.STOP and len(change.values["gangs"]) > 1:  # type: ignore[arg-type]
        alone = [
            altered
            for each in ladders
            for words, altered in each
            if words[0] == "stop" and len(words) == 2 and words[1] in change.values["gangs"]  # type: ignore[operator]
        ]
        assert len(alone) == 2
        assert not any(starts(altered, gang) for altered in alone)


def words_of(change: SuggestedChange) -> tuple[str, ...]:
    if change.kind is ChangeKind.STOP:
        return (change.kind.value, *sorted(change.values["gangs"]))  # type: ignore[arg-type]
    left_out = ("before", "unit", "levels")
    values = (str(value) for name, value in change.values.items() if name not in left_out)
    return (change.kind.value, *values)


def all_ladders(here: Snapshot, gang: str) -> list[Rungs]:
    """Return all possible changes; a gang that runs in part is not submitted again."""
    altered = Altered(here, gang)
    found: list[Rungs] = []
    there = ACTIVE | {TaskState.SUCCEEDED}
    is_started = any(task.state in there for task in altered.tasks)
    if not is_started and not starts(altered.again(), gang):
        found += altered.of_the_job()
    needed = altered.gang.needed()
    if len(altered.tasks) >= needed:
        found += altered.around()
    return found


def waiting_jobs(count: int, seed: int = 0) -> Iterator[tuple[Snapshot, GangId]]:
    """Yield jobs that wait or can never start, in small clusters that are nearly full."""
    while count > 0:
        here = crowd_of(_recipe(seed))
        for each in plan(Cluster.of(here)).decisions:
            waits = each.verdict in (Verdict.WAITS, Verdict.NEVER)
            if count > 0 and waits and not starts(afresh(here, each.gang), each.gang):
                count -= 1
                yield here, each.gang
        seed += 1


def _recipe(seed: int) -> Recipe:
    rolls = Random(seed)
    features = rolls.sample([*random_parts.FEATURES, *PRESSING], rolls.randint(0, 8))
    features += rolls.choice([[], ["limits"], ["guarantees"]])
    return Recipe(
        seed, rolls.randint(1, 3), rolls.randint(4, 9), rolls.random() < 0.5, frozenset(features)
    )
