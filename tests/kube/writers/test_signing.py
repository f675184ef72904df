"""A mark on an owner is believed only if our scheduler signed it for that very object."""

from __future__ import annotations

import msgspec
import pytest

from tests.daemon.decide.test_suspended_gangs import GANG, LOW, Play
from tests.support.kube_given import KEY, Reading, Stage, container, job, marked, node, queue
from windlass.daemon.loop.writers import unsigned_log_fields
from windlass.daemon.serving.leader_info import seal_of
from windlass.kube.client.leader_election import LeaseRecord
from windlass.kube.ingest.scope import Scope
from windlass.kube.writers.signing import PUBLIC_KEY, Signing, UnreadableKey
from windlass.kube.writers.suspend import To, Turn, patch_of
from windlass.workloads.kinds.suspension import Mark, text_of
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import MAX_RUN, SEAL, SUSPENDED

GPU = container("main", **{"nvidia.com/gpu": "1"})
SAID = text_of(Mark(at=1))
OTHER = Signing(b"another key, also of 32 bytes ..")
TEAM = queue("team", "ml")


def owner(notes: dict[str, str], name: str = "low", count: int = 2) -> wire.Owner:
    template = {"spec": {"containers": [GPU]}}
    return job(name, count, suspend=True, template=template, annotations=notes)


def test_a_signed_mark_keeps_a_place_in_line():
    assert len(Reading(owner(marked("low-uid", SAID))).cluster.tasks) == 2


@pytest.mark.parametrize(
    "notes",
    [
        {SUSPENDED: SAID},
        {SUSPENDED: SAID, SEAL: "not a signature"},
        marked("low-uid", SAID, OTHER),
        marked("another-uid", SAID),
        marked("low-uid", SAID) | {SUSPENDED: text_of(Mark(at=1, since=1))},
    ],
    ids=["unsigned", "garbage", "another key", "copied from another object", "changed"],
)
def test_any_other_mark_is_as_if_it_was_not_there(notes: dict[str, str]):
    assert not Reading(owner(notes)).cluster.tasks


def test_the_signature_of_another_annotation_does_not_count():
    notes = {SUSPENDED: SAID, SEAL: KEY.sign("low-uid", "windlass.dev/other", SAID)}
    assert not Reading(owner(notes)).cluster.tasks


def test_a_promise_on_a_mark_that_nobody_signed_holds_nothing():
    play = Play().suspended().resumed()
    meta = play.low.metadata
    stage = Stage(node("n1", gpus=2), TEAM, now=play.stage.now)
    stage.see(job("low", 2, uid=meta.uid, annotations={**(meta.annotations or {}), SEAL: ""}))
    stage.brain.resume()
    assert not stage.cluster.holds


def test_a_signed_job_is_not_resumed_by_the_mark_of_another():
    low = owner(marked("another-uid", SAID))
    assert patch_of(Turn(GANG, LOW, To.RESUMED, Mark(at=1, resumed_at=2)), low, KEY) is None


def test_who_can_only_check_believes_what_was_signed_and_nothing_else():
    lease = LeaseRecord(wire.ObjectMeta(annotations={PUBLIC_KEY: KEY.public}))
    checks, signature = seal_of(lease), KEY.sign("u", SUSPENDED, SAID)
    assert not checks.can_sign
    assert checks.verify("u", SUSPENDED, SAID, signature)
    assert not checks.verify("v", SUSPENDED, SAID, signature)
    assert not seal_of(LeaseRecord()).verify("u", SUSPENDED, SAID, signature)
    assert seal_of(None).verify("u", SUSPENDED, SAID, signature), "it may not read the lease"


def test_a_key_that_is_none_is_refused():
    with pytest.raises(UnreadableKey):
        Signing(b"short")


def test_an_answer_of_the_key_before_is_forgotten():
    signing = Signing(b"the key of yesterday, 32 bytes..")
    signature = signing.sign("u", SUSPENDED, SAID)
    assert signing.verify("u", SUSPENDED, SAID, signature)
    signing.use(b"the key of today, of 32 bytes...")
    assert not signing.verify("u", SUSPENDED, SAID, signature)
    signing.use(None)
    assert (signing.can_sign, signing.public) == (False, "")


# --- without a key --------------------------------------------------------------------------------


def keyless(**annotations: str) -> Play:
    """The same two GPUs and Job, and a scheduler that has no key."""
    play = Play.__new__(Play)
    play.low = job("low", 2, template={"spec": {"containers": [GPU]}})
    play.stage = Stage(node("n1", gpus=2), queue("team", "ml", guarantee={"gpu": 2}), scope=Scope())
    play.stage.see(play.low, *play.pods("a", 2, "n1", annotations=annotations))
    return play


def test_without_a_key_pods_are_evicted_one_by_one():
    play = keyless()
    play.stage.step()
    assert play.high_comes() == [None, None]


def test_what_ends_for_good_is_suspended_without_a_mark_and_needs_no_key():
    step = keyless(**{MAX_RUN: "1s"}).stage.step()
    turns = [each.turn for clearing in step.work.clearings for each in clearing.victims]
    assert turns == [Turn(GANG, LOW, To.SUSPENDED, None)] * 2
    patch = patch_of(Turn(GANG, LOW, To.SUSPENDED), job("low"), Scope().seal)
    assert patch is not None
    assert patch["spec"] == {"suspend": True}


def test_an_owner_with_an_unsigned_mark_is_told_once_with_how_to_resume_it():
    stage = Stage(node("n1", gpus=2), TEAM, owner({SUSPENDED: SAID}))
    (unsigned,) = stage.step().work.unsigned
    said = unsigned_log_fields(unsigned)
    assert said["owner"] == "ml/low"
    command = 'kubectl patch job.batch low -n ml --type merge -p \'{"spec":{"suspend":false}}\''
    assert said["advice"] == command
    stage.see(owner({SUSPENDED: SAID, "more": "1"}))
    assert stage.step().work.unsigned == []


def test_an_unsigned_mark_on_what_runs_is_not_told():
    low = owner({SUSPENDED: SAID})
    runs = msgspec.structs.replace(low, spec={**low.spec, "suspend": False})
    assert Stage(node("n1", gpus=2), TEAM, runs).step().work.unsigned == []
