"""All that a term writes: each kind of write has its hand, and what became of it is news.

The hands share a bounded number of workers. Whatever fails, or is answered, goes into the inbox and
so comes back to the brain.
"""

from __future__ import annotations

import asyncio
import time

import msgspec

from windlass.daemon.decide.step import StepOutput
from windlass.daemon.loop.inbox import Inbox
from windlass.daemon.loop.watches import Watches
from windlass.daemon.serving.context import DaemonContext
from windlass.kube.client.errors import ApiError
from windlass.kube.client.write_queue import WriteQueue
from windlass.kube.ingest.owners import Unsigned
from windlass.kube.refs import PodRead
from windlass.kube.writers.binder import Binder
from windlass.kube.writers.checkpoint import Asker, Heard, Unasked
from windlass.kube.writers.evictor import Evictor, EvictRefused, Manners, Victim
from windlass.kube.writers.force_delete import Forcer
from windlass.kube.writers.status_writer import Teller
from windlass.kube.writers.suspend import Turner
from windlass.kube.writes import BindResult, TurnFailed
from windlass.model.events import BindFailed
from windlass.workloads.kinds.suspension import with_field
from windlass.workloads.objects.annotations import SUSPENDED


class ClusterWriters:
    """Carries out what the brain decides."""

    def __init__(self, parts: DaemonContext, inbox: Inbox, watches: Watches) -> None:
        self._parts, self._inbox, self._watches = parts, inbox, watches
        config, api = parts.config, parts.api
        self.workers = WriteQueue(config.writes.concurrency, config.writes.per_second)
        self._binder = Binder(api, self.workers, self._heard, parts.chance)
        manners = Manners(config.evictions_per_queue_per_minute, config.insist_after_s)
        self.evictor = Evictor(api, self.workers, self._binder, self._refused, manners)
        self.evictor.clock = time.monotonic
        self.evictor.has_budget = watches.has_budget
        self.evictor.spares = watches.spares
        self.evictor.evicted = self._evicted
        self.asker = Asker(api, self.workers, self._binder, self._answered)
        self._forcer = Forcer(api, self.workers, self._binder)
        self._turner = Turner(api, self.workers, self._binder, self._not_turned)
        self.evictor.seal = self._turner.seal = parts.signing
        self._teller = Teller(api, self.workers, self._binder)

    def carry_out(self, work: StepOutput) -> None:
        """Set going all that there is to do after a step."""
        for start in work.starts:
            self._binder.start(start)
        for clearing in work.clearings:
            self.evictor.clear(clearing)
        self._part(work)
        self._hasten(work)
        for turn in work.turns:
            self._turner.turn(turn)
        for pod in work.overdue:
            self._binder.read(pod)
        for pod, text in work.promises:
            self._binder.promise(pod, text, _nothing, _ignore)
        for status in work.statuses:
            self._teller.status(status.path, status.status)
        for page in work.pages:
            self._teller.page(page)
        for mark in work.marks:
            quarantine = mark.quarantine.what if mark.quarantine else "over"
            self._parts.log.line("quarantine", node=mark.node, why=quarantine)
            self._teller.patch(mark.path, mark.body())

    def _part(self, work: StepOutput) -> None:
        log, metrics = self._parts.log, self._parts.metrics
        for unsigned in work.unsigned:
            log.line("mark not signed", level="warning", **told(unsigned))
        for rule, milli in work.lost.items():
            metrics.lost.labels(rule).inc(milli / 1000)
        for wrong in work.disbelieved:
            metrics.disbelieved.inc()
            log.line("answer refused", task=wrong.task, named=wrong.named, asked=wrong.asked)
        for ended in work.ended:
            name, outcome, waited_s = ended.parting.gang, ended.outcome, ended.waited_s
            metrics.save_ended(outcome, waited_s)
            log.line("save ended", gang=name, outcome=outcome, waited_s=waited_s)
            tasks = [each.task for each in ended.parting.evictions]
            self.asker.end(ended.parting.id, tasks)
        for asking in work.askings:
            pods, request = len(asking.pods), asking.request
            log.line("asked to save", id=request.id, pods=pods, reason=request.reason)
            self.asker.ask(asking)
        for withdrawal in work.withdrawals:
            self.asker.withdraw(withdrawal)
        for saved in work.saved:
            self.asker.note(saved)

    def _hasten(self, work: StepOutput) -> None:
        """Delete again what was told to end and does not in time."""
        for each in work.stranded:
            self._forcer.delete(each)
        for short in work.overlong:
            self._parts.log.line("grace shortened", task=short.pod.task, to_s=short.grace_s)
            self._forcer.shorten(short.pod, short.grace_s)

    async def wait_done(self) -> None:
        """Let what has been decided be written, as long as the lease would last."""
        try:
            async with asyncio.timeout(self._parts.config.lease.renew_deadline_s):
                await self.workers.wait_idle()
        except TimeoutError:
            self._parts.log.line("left unwritten", writes=self.workers.waiting)

    # -- what became of them

    def _heard(self, news: BindResult) -> None:
        if isinstance(news, BindFailed):
            self._parts.metrics.failed.inc()
            self._parts.log.line("bind failed", task=news.task, why=news.why)
        if not isinstance(news, PodRead) or self._watches.is_news(news.pod):
            self._inbox.put(news)

    def _evicted(self, victim: Victim) -> None:
        self._parts.metrics.evictions.labels(victim.rule.value).inc()

    def _refused(self, refused: EvictRefused) -> None:
        self._parts.metrics.evictions_refused.inc()
        self._parts.log.line("eviction refused", task=refused.task, why=refused.why)
        self._inbox.put(refused)

    def _answered(self, news: Heard | Unasked | EvictRefused) -> None:
        match news:
            case EvictRefused():
                self._refused(news)
                return
            case Unasked(task, _, why):
                self._parts.log.line("not asked to save", task=task, why=why)
            case Heard():
                pass
        self._inbox.put(news)

    def _not_turned(self, failed: TurnFailed) -> None:
        turn = failed.turn
        self._parts.log.line("owner unchanged", gang=turn.gang, to=turn.to, why=failed.why)
        self._inbox.put(failed)


def told(unsigned: Unsigned) -> dict[str, str]:
    """What is logged of a suspended owner whose mark is not believed, and how to resume it."""
    patch = msgspec.json.encode(with_field(unsigned.field, False)).decode()
    kind = f"{unsigned.kind.kind}.{unsigned.kind.group}".lower()
    where = f"{unsigned.namespace}/{unsigned.name}"
    command = f"kubectl patch {kind} {unsigned.name} -n {unsigned.namespace} --type merge -p"
    why = f"{SUSPENDED} is not signed by this scheduler: it stays suspended until it is resumed"
    return {"owner": where, "why": why, "advice": f"{command} '{patch}'"}


def _nothing() -> None:
    pass


def _ignore(_error: ApiError) -> None:
    """A pod that is gone has no use for it."""
