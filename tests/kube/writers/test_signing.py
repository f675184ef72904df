"""A mark on an owner is accepted only if our scheduler signed it for exactly that object."""

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
from windlass.kube.writers.suspend import patch_of
from windlass.kube.writes import OwnerChange, OwnerWrite
from windlass.workloads.kinds.suspension import SuspensionMark, mark_text
from windlass.workloads.objects import wire
from windlass.workloads.objects.annotations import MAX_RUN, SEAL, SUSPENDED

GPU = container("main", **{"nvidia.com/gpu": "1"})
MARK = mark_text(SuspensionMark(at=1))
OTHER = Signing(b"another key, also of 32 bytes ..")
TEAM = queue("team", "ml")


def owner(notes: dict[str, str], name: str = "low", count: int = 2) -> wire.Owner:
    template = {"spec": {"containers": [GPU]}}
    return job(name, count, suspend=True, template=template, annotations=notes)


def test_a_signed_mark_keeps_the_queue_position():
    assert len(Reading(owner(marked("low-uid", MARK))).cluster.tasks) == 2


@pytest.mark.parametrize(
    "notes",
    [
        {SUSPENDED: MARK},
        {SUSPENDED: MARK, SEAL: "not a signature"},
        marked("low-uid", MARK, OTHER),
        marked("another-uid", MARK),
        marked("low-uid", MARK) | {SUSPENDED: mark_text(SuspensionMark(at=1, since=1))},
    ],
    ids=["unsigned", "garbage", "another key", "copied from another object", "changed"],
)
def test_any_other_mark_is_ignored(notes: dict[str, str]):
    assert not Reading(owner(notes)).cluster.tasks


def test_the_signature_of_another_annotation_is_rejected():
    notes = {SUSPENDED: MARK, SEAL: KEY.sign("low-uid", "windlass.dev/other", MARK)}
    assert not Reading(owner(notes)).cluster.tasks


def test_a_promise_in_an_unsigned_mark_holds_no_place():
    play = Play().suspended().resumed()
    meta = play.low.metadata
    stage = Stage(node("n1", gpus=2), TEAM, now=play.stage.now)
    stage.see(job("low", 2, uid=meta.uid, annotations={**(meta.annotations or {}), SEAL: ""}))
    stage.brain.resume()
    assert not stage.cluster.holds


def test_a_signed_job_is_not_resumed_by_the_mark_of_another():
    low = owner(marked("another-uid", MARK))
    assert (
        patch_of(
            OwnerWrite(GANG, LOW, OwnerChange.RESUMED, SuspensionMark(at=1, resumed_at=2)), low, KEY
        )
        is None
    )


def test_a_public_key_verifies_signatures_and_cannot_sign():
    lease = LeaseRecord(wire.ObjectMeta(annotations={PUBLIC_KEY: KEY.public}))
    checks, signature = seal_of(lease), KEY.sign("u", SUSPENDED, MARK)
    assert not checks.can_sign
    assert checks.verify("u", SUSPENDED, MARK, signature)
    assert not checks.verify("v", SUSPENDED, MARK, signature)
    assert not seal_of(LeaseRecord()).verify("u", SUSPENDED, MARK, signature)
    assert seal_of(None).verify("u", SUSPENDED, MARK, signature), "it may not read the lease"


def test_a_malformed_key_is_refused():
    with pytest.raises(UnreadableKey):
        Signing(b"short")


def test_a_new_key_invalidates_cached_verifications():
    signing = Signing(b"the key of yesterday, 32 bytes..")
    signature = signing.sign("u", SUSPENDED, MARK)
    assert signing.verify("u", SUSPENDED, MARK, signature)
    signing.use(b"the key of today, of 32 bytes...")
    assert not signing.verify("u", SUSPENDED, MARK, signature)
    signing.use(None)
    assert (signing.can_sign, signing.public) == (False, "")


# --- without a key --------------------------------------------------------------------------------


def keyless(**annotations: str) -> Play:
    """Return the same two GPUs and Job, with a scheduler that has no key."""
    play = Play.__new__(Play)
    play.low = job("low", 2, template={"spec": {"containers": [GPU]}})
    play.stage = Stage(node("n1", gpus=2), queue("team", "ml", guarantee={"gpu": 2}), scope=Scope())
    play.stage.see(play.low, *play.pods("a", 2, "n1", annotations=annotations))
    return play


def test_without_a_key_pods_are_evicted_one_by_one():
    play = keyless()
    play.stage.step()
    assert play.high_comes() == [None, None]


def test_a_gang_that_ends_for_good_is_suspended_without_a_mark_or_key():
    step = keyless(**{MAX_RUN: "1s"}).stage.step()
    turns = [victim.turn for evictions in step.work.evictions for victim in evictions.victims]
    assert turns == [OwnerWrite(GANG, LOW, OwnerChange.SUSPENDED, None)] * 2
    patch = patch_of(OwnerWrite(GANG, LOW, OwnerChange.SUSPENDED), job("low"), Scope().seal)
    assert patch is not None
    assert patch["spec"] == {"suspend": True}


def test_an_unsigned_mark_is_logged_once_with_the_command_to_resume():
    stage = Stage(node("n1", gpus=2), TEAM, owner({SUSPENDED: MARK}))
    (unsigned,) = stage.step().work.unsigned_marks
    fields = unsigned_log_fields(unsigned)
    assert fields["owner"] == "ml/low"
    command = 'kubectl patch job.batch low -n ml --type merge -p \'{"spec":{"suspend":false}}\''
    assert fields["advice"] == command
    stage.see(owner({SUSPENDED: MARK, "more": "1"}))
    assert stage.step().work.unsigned_marks == []


def test_an_unsigned_mark_on_a_running_owner_is_not_logged():
    low = owner({SUSPENDED: MARK})
    runs = msgspec.structs.replace(low, spec={**low.spec, "suspend": False})
    assert Stage(node("n1", gpus=2), TEAM, runs).step().work.unsigned_marks == []
