"""The writers of a term: one for each kind of write.

They share one write queue. Failures and answers go into the inbox, and so become inputs of the next
scheduler step. This module also logs and counts what is written.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from windlass.daemon.decide import StepOutput
from windlass.daemon.loop.inbox import Inbox
from windlass.daemon.loop.watches import Watches
from windlass.daemon.serving import DaemonContext
from windlass.kube.client import ApiError, WriteQueue
from windlass.kube.ingest import UnsignedMark
from windlass.kube.refs import PodRead
from windlass.kube.writers import (
    Binder,
    CheckpointRequester,
    EvictionLimits,
    Evictor,
    ForceDeleter,
    NodeCheckStarter,
    OwnerWriter,
    StatusWriter,
)
from windlass.kube.writes import (
    BindResult,
    CheckRefused,
    EvictRefused,
    Heard,
    OwnerWriteFailed,
    RequestUnwritable,
    Victim,
)
from windlass.model.events import BindFailed
from windlass.workloads.kinds import field_patch
from windlass.workloads.objects import SUSPENDED


class ClusterWriters:
    """Carries out the output of scheduler steps."""

    def __init__(self, context: DaemonContext, inbox: Inbox, watches: Watches) -> None:
        self._context, self._inbox, self._watches = context, inbox, watches
        config, api = context.config, context.api
        self.workers = WriteQueue(config.writes.concurrency, config.writes.per_second)
        self._binder = Binder(api, self.workers, self._bind_reported, context.chance)
        limits = EvictionLimits(config.evictions_per_queue_per_minute, config.insist_after_s)
        self.evictor = Evictor(api, self.workers, self._binder, self._refused, limits)
        self.evictor.clock = time.monotonic
        self.evictor.has_budget = watches.has_budget
        self.evictor.budgets_allow = watches.budgets_allow
        self.evictor.evicted = self._evicted
        self.checkpoints = CheckpointRequester(api, self.workers, self._binder, self._answered)
        self._force_deleter = ForceDeleter(api, self.workers, self._binder)
        self._turner = OwnerWriter(api, self.workers, self._binder, self._not_turned)
        self.evictor.seal = self._turner.seal = context.signing
        self._status = StatusWriter(api, self.workers, self._binder)
        template = config.node_check.template
        self._checks = NodeCheckStarter(api, self.workers, self._binder, template, self._unchecked)

    def carry_out(self, output: StepOutput) -> None:
        """Queue all writes of a step."""
        for start in output.starts:
            self._binder.start(start)
        for evictions in output.evictions:
            self.evictor.evict(evictions)
        self._write_checkpoints(output)
        self._delete_stuck_pods(output)
        for turn in output.owner_writes:
            self._turner.turn(turn)
        for pod in output.overdue_binds:
            self._binder.read(pod)
        for pod, text in output.promises:
            self._binder.promise(pod, text, _nothing, _ignore)
        for status in output.statuses:
            self._status.status(status.path, status.status)
        for messages in output.messages:
            self._status.messages(messages)
        for mark in output.node_marks:
            quarantine = mark.quarantine.what if mark.quarantine else "over"
            self._context.log.line("quarantine", node=mark.node, why=quarantine)
            self._status.patch(mark.path, mark.body())
        for check in output.node_checks:
            self._context.log.line("node check", node=check.node, job=check.job)
            self._checks.start(check)

    def _write_checkpoints(self, output: StepOutput) -> None:
        """End, write and withdraw checkpoint requests; log and count what happened to them."""
        log, metrics = self._context.log, self._context.metrics
        for unsigned in output.unsigned_marks:
            log.line("mark not signed", level="warning", **unsigned_log_fields(unsigned))
        for rule, milli in output.lost.items():
            metrics.lost.labels(rule).inc(milli / 1000)
        for wrong in output.refused_answers:
            metrics.disbelieved.inc()
            log.line("answer refused", task=wrong.task, named=wrong.named, asked=wrong.asked)
        for ended in output.ended_requests:
            name, outcome, waited_s = ended.parting.gang, ended.outcome, ended.waited_s
            metrics.save_ended(outcome, waited_s)
            log.line("save ended", gang=name, outcome=outcome, waited_s=waited_s)
            tasks = [evict.task for evict in ended.parting.evictions]
            self.checkpoints.end(ended.parting.id, tasks)
        for asking in output.checkpoint_requests:
            pods, request = len(asking.pods), asking.request
            log.line("asked to save", id=request.id, pods=pods, reason=request.reason)
            self.checkpoints.ask(asking)
        for withdrawal in output.checkpoint_withdrawals:
            self.checkpoints.withdraw(withdrawal)
        for saved in output.checkpoint_notes:
            self.checkpoints.note(saved)

    def _delete_stuck_pods(self, output: StepOutput) -> None:
        """Delete again pods that terminate and do not end in time."""
        for stranded in output.stuck_pods:
            self._force_deleter.delete(stranded)
        for overlong in output.overlong_terminations:
            self._context.log.line("grace shortened", task=overlong.pod.task, to_s=overlong.grace_s)
            self._force_deleter.shorten(overlong.pod, overlong.grace_s)

    async def wait_done(self) -> None:
        """Wait until all writes are done, but no longer than the lease can last."""
        try:
            async with asyncio.timeout(self._context.config.lease.renew_deadline_s):
                await self.workers.wait_idle()
        except TimeoutError:
            self._context.log.line("left unwritten", writes=self.workers.waiting)

    # -- reports of the writers

    def _bind_reported(self, news: BindResult) -> None:
        if isinstance(news, BindFailed):
            self._context.metrics.failed.inc()
            self._context.log.line("bind failed", task=news.task, why=news.why)
        # A pod that was read may be older than what the watch has delivered since.
        if not isinstance(news, PodRead) or self._watches.is_news(news.pod):
            self._inbox.put(news)

    def _evicted(self, victim: Victim) -> None:
        self._context.metrics.evictions.labels(victim.rule.value).inc()

    def _refused(self, refused: EvictRefused) -> None:
        self._context.metrics.evictions_refused.inc()
        self._context.log.line("eviction refused", task=refused.task, why=refused.why)
        self._inbox.put(refused)

    def _answered(self, news: Heard | RequestUnwritable | EvictRefused) -> None:
        match news:
            case EvictRefused():
                self._refused(news)
                return
            case RequestUnwritable(task, _, why):
                self._context.log.line("not asked to save", task=task, why=why)
            case Heard():
                pass
        self._inbox.put(news)

    def _unchecked(self, refused: CheckRefused) -> None:
        node, why = refused.check.node, refused.why
        self._context.log.line("node not checked", level="warning", node=node, why=why)
        self._inbox.put(refused)

    def _not_turned(self, failed: OwnerWriteFailed) -> None:
        turn = failed.turn
        self._context.log.line("owner unchanged", gang=turn.gang, to=turn.to, why=failed.why)
        self._inbox.put(failed)


def unsigned_log_fields(unsigned: UnsignedMark) -> dict[str, str]:
    """Return the log fields for a suspended owner whose mark is not signed, with the command to
    resume it.
    """
    patch = msgspec.json.encode(field_patch(unsigned.field, False)).decode()
    kind = f"{unsigned.kind.kind}.{unsigned.kind.group}".lower()
    where = f"{unsigned.namespace}/{unsigned.name}"
    command = f"kubectl patch {kind} {unsigned.name} -n {unsigned.namespace} --type merge -p"
    why = f"{SUSPENDED} is not signed by this scheduler: it stays suspended until it is resumed"
    return {"owner": where, "why": why, "advice": f"{command} '{patch}'"}


def _nothing() -> None:
    pass


def _ignore(_error: ApiError) -> None:
    """Do nothing: a pod that is gone needs no promise."""
