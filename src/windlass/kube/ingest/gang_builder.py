"""Makes a gang from what its pods claim about it.

Members of one gang should agree. Where they do not, the careful reading wins: the largest minimum,
the highest priority, preemptible only if all members are and no other scheduler placed one of them.
Contradictions about the queue refuse the gang, with a reason.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

from windlass.model.jobs import Gang, GangId, Group, JobId, Overrun, TaskId
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.units import parse_duration, parse_timestamp_or_none
from windlass.workloads.kinds import UNLIMITED, Membership, Survives
from windlass.workloads.objects import (
    CREATOR,
    DURATION,
    MAX_RUN,
    OVERRUN,
    PREEMPTIBLE,
    QUEUE,
    STOPS,
    Pod,
    mark,
)
from windlass.workloads.pods import (
    GRACE_S,
    MUTE,
    CheckpointSettings,
    checkpoint_settings_of,
    grace_of,
)

LONGEST_USER = 256
"""The characters of a user name that are kept, as in the ledger of a queue's status."""


class PodClaims(NamedTuple):
    """The claims of one pod about its gang; most members claim the same, so they are counted."""

    member: Membership
    namespace: str
    queue: str
    priority: int
    never_displaces: bool
    preemptible: str
    duration: str
    refusal: Reason | None
    foreign: bool = False
    """Another scheduler placed the pod: it counts, and is never moved or evicted."""
    creator: str = ""
    """The user who created the pod; trusted only where the webhook writes it."""
    saving: CheckpointSettings = MUTE
    grace_s: int = GRACE_S
    stops: str = ""
    max_run: str = ""
    overrun: str = ""


def gang_claims_of(
    pod: Pod, member: Membership, refusal: Reason | None, foreign: bool
) -> PodClaims:
    """Return the claims of a pod about its gang."""
    meta, spec = pod.metadata, pod.spec
    return PodClaims(
        member=member,
        namespace=meta.namespace,
        queue=mark(meta, QUEUE),
        priority=spec.priority or 0,
        never_displaces=spec.preemption_policy == "Never",
        preemptible=mark(meta, PREEMPTIBLE),
        duration=mark(meta, DURATION),
        refusal=refusal,
        foreign=foreign,
        creator=(meta.annotations or {}).get(CREATOR, ""),
        saving=checkpoint_settings_of(pod),
        grace_s=grace_of(pod),
        stops=mark(meta, STOPS),
        max_run=mark(meta, MAX_RUN),
        overrun=mark(meta, OVERRUN),
    )


@dataclass(slots=True)
class GangMembers:
    """The members of one gang, and their claims."""

    id: GangId
    members: dict[TaskId, PodClaims] = field(default_factory=dict[TaskId, PodClaims])
    said: Counter[PodClaims] = field(default_factory=Counter[PodClaims])
    """The number of members with each claim; always the counts of `members`, without zeros."""
    created_at: int = 0
    """The creation of the oldest member, in seconds."""
    gang: Gang | None = None
    """The gang as it was reported last; None before the first report."""

    @property
    def namespace(self) -> str:
        """The namespace of the members."""
        return next(iter(self.said)).namespace

    def join(self, task: TaskId, claims: PodClaims, pod: Pod) -> bool:
        """Add or replace the claims of a pod; return whether the gang may be different now."""
        if self.members.get(task) == claims:
            return False
        changed = self.leave(task)
        created = parse_timestamp_or_none(pod.metadata.creation_timestamp) or 0
        older = not self.members or created < self.created_at
        if older:
            self.created_at = created
        self.members[task] = claims
        self.said[claims] += 1
        return changed or older or self.said[claims] == 1

    def leave(self, task: TaskId) -> bool:
        """Remove a pod; return whether the gang may be different now."""
        claims = self.members.pop(task, None)
        if claims is None:
            return False
        self.said[claims] -= 1
        if self.said[claims]:
            return False
        del self.said[claims]
        return True


def gang_of(
    crew: GangMembers,
    queue: str,
    refusal: Reason | None,
    trusts_creator: bool = False,
    orphans: int = 0,
) -> Gang:
    """Return the gang that its members describe, in the queue that was found for it.

    `trusts_creator` says whether the creator that they name is trusted. `orphans` is the number of
    pods of the owner on nodes that are gone; they will fail.
    """
    # mostly there is one claim: `repr` of each would take longer than all the rest
    said = sorted(crew.said, key=repr) if len(crew.said) > 1 else list(crew.said)
    first = said[0]
    refusals = [
        refusal,
        *(claims.member.refusal or claims.refusal for claims in said),
        *_doubts(said),
    ]
    is_lost = not forgives(crew, orphans)
    preemptible = all(_is_preemptible(claims, is_lost) for claims in said)
    never = any(claims.never_displaces for claims in said)
    keeps = any(_is_kept(claims, is_lost) for claims in said)
    return Gang(
        id=crew.id,
        queue=queue,
        job=JobId(f"{first.namespace}/{first.member.job}"),
        groups=(Group(minimum=max(claims.member.minimum for claims in said)),),
        namespace=first.namespace,
        priority=max(claims.priority for claims in said),
        preemptible=preemptible,
        created_at=crew.created_at,
        user=min(claims.creator for claims in said)[:LONGEST_USER] if trusts_creator else "",
        duration_s=next((s for claims in said if (s := parse_duration(claims.duration))), None),
        displaces_after_s=None if never else 0,
        # work that would be lost for good is never evicted only because its gang is incomplete
        stale_after_s=-1 if keeps else None,
        remade_within_s=max(claims.member.remade_within_s for claims in said),
        stops_with=_stops_with(said),
        # a pod without checkpoints, such as a launcher, has nothing to save while others have
        saves_within_s=max((s for e in said if (s := e.saving.within_s)), default=None),
        unsaved_at_most_s=_unsaved_at_most_s(said),
        terminates_s=max(claims.grace_s for claims in said),
        max_run_s=min(
            (s for claims in said if (s := parse_duration(claims.max_run))), default=None
        ),
        overrun=Overrun(
            next((claims.overrun for claims in said if _is_known(claims)), Overrun.END)
        ),
        stops_at_most=min((int(e.stops) for e in said if _is_count(e.stops)), default=None),
        hurry_s=min((s for e in said if (s := e.saving.hurry_s) is not None), default=None),
        refusal=next((each for each in refusals if each is not None), None),
    )


def _is_known(claims: PodClaims) -> bool:
    return claims.overrun in set(Overrun)


def _is_count(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= 6


def _unsaved_at_most_s(said: list[PodClaims]) -> int | None:
    """Return the largest bound on unsaved seconds; None if a pod with checkpoints names none."""
    bounds = [claims.saving.at_most_s for claims in said if claims.saving.saves]
    known = [bound for bound in bounds if bound is not None]
    return max(known) if known and len(known) == len(bounds) else None


def forgives(crew: GangMembers, orphans: int) -> bool:
    """Return whether the owner survives the eviction of its gang and the failure of its orphans."""
    count = 0 if _stops_with(list(crew.said)) else len(crew.members) + orphans
    return count <= forgiven(crew)[0]


def forgiven(crew: GangMembers) -> tuple[int, str]:
    """Return how many evictions the owner of a gang forgives, and the owner that counts them.

    A user who labels the gang preemptible has accepted that it fails.
    """
    counted = [claims.member for claims in crew.said if claims.preemptible != "true"]
    least = min(counted, key=lambda each: (each.forgives, each.counted_by), default=None)
    return (least.forgives, least.counted_by) if least else (UNLIMITED, "")


def _stops_with(said: list[PodClaims]) -> str:
    """Return the owner that stops all members at once; empty if there is none."""
    owners = {claims.member.stops_with for claims in said}
    return owners.pop() if len(owners) == 1 else ""


def _is_preemptible(claims: PodClaims, is_lost: bool) -> bool:
    if claims.foreign:
        return False
    if claims.preemptible in ("true", "false"):
        return claims.preemptible == "true"
    return claims.member.survives is not Survives.LOST and not is_lost


def _is_kept(claims: PodClaims, is_lost: bool) -> bool:
    is_lost = is_lost or claims.member.survives is Survives.LOST
    return claims.foreign or (is_lost and claims.preemptible != "true")


def _doubts(said: list[PodClaims]) -> list[Reason]:
    if len(named := {claims.queue or "none" for claims in said}) > 1:
        queues = " and ".join(sorted(named)[:2])
        return [
            Reason(ReasonCode.UNREADABLE, {"what": f"its pods name different queues, {queues}"})
        ]
    if any(claims.preemptible not in ("", "true", "false") for claims in said):
        return [
            Reason(ReasonCode.UNREADABLE, {"what": f"label {PREEMPTIBLE} must be true or false"})
        ]
    spans = [(DURATION, e.duration) for e in said] + [(MAX_RUN, e.max_run) for e in said]
    for name, text in spans:
        if text and parse_duration(text) is None:
            what = f"annotation {name} must be a time such as 90s, 45m or 2h30m"
            return [Reason(ReasonCode.UNREADABLE, {"what": what})]
    if any(claims.overrun and not _is_known(claims) for claims in said):
        return [
            Reason(ReasonCode.UNREADABLE, {"what": f"annotation {OVERRUN} must be end or requeue"})
        ]
    if any(claims.stops and not _is_count(claims.stops) for claims in said):
        return [
            Reason(
                ReasonCode.UNREADABLE, {"what": f"annotation {STOPS} must be a number such as 2"}
            )
        ]
    return []
