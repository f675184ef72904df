"""The Prometheus metrics of the daemon, from plans and writes; see docs/reference/metrics.md."""

from __future__ import annotations

from collections import Counter as Tally

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from windlass.engine.plan import Plan, Verdict
from windlass.model.queues import GPU
from windlass.state.cluster import Cluster

SAVE_BUCKETS = (1, 5, 15, 30, 60, 120, 300, 600, 1800)
CYCLE_BUCKETS = (0.001, 0.005, 0.02, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)


class Metrics:
    """The metrics of one daemon, in a registry of their own: tests run several in one process."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        self.leads = Gauge("windlass_leads", "1 while this process leads.", registry=registry)
        self.cycle = Histogram(
            "windlass_cycle_seconds",
            "Time of one step: reading, deciding, assuming.",
            registry=registry,
            buckets=CYCLE_BUCKETS,
        )
        self.binds = Counter("windlass_binds_total", "Pods bound.", registry=registry)
        self.failed = Counter(
            "windlass_binds_failed_total", "Binds that did not happen.", registry=registry
        )
        self.evictions = Counter(
            "windlass_evictions_total", "Pods evicted, by rule.", ["rule"], registry=registry
        )
        self.evictions_refused = Counter(
            "windlass_evictions_refused_total", "Evictions that were given up.", registry=registry
        )
        self.lost = Counter(
            "windlass_lost_gpu_seconds_total",
            "GPU time that has to be spent again after evictions, by rule.",
            ["rule"],
            registry=registry,
        )
        self.requests = Counter(
            "windlass_save_requests_total", "Gangs asked to save.", registry=registry
        )
        self.saves = Counter(
            "windlass_saves_total", "Requests to save, by outcome.", ["outcome"], registry=registry
        )
        self.save_wait = Histogram(
            "windlass_save_wait_seconds",
            "Time from the request to save to its end.",
            registry=registry,
            buckets=SAVE_BUCKETS,
        )
        self.disbelieved = Counter(
            "windlass_save_answers_refused_total",
            "Answers to requests to save that were stale or forged.",
            registry=registry,
        )
        self.waiting = Gauge(
            "windlass_waiting_gangs", "Gangs that wait, by queue.", ["queue"], registry=registry
        )
        self.gpus = Gauge("windlass_queue_gpus", "GPUs a queue has.", ["queue"], registry=registry)
        self.shares = Gauge(
            "windlass_queue_share_gpus", "GPUs a queue should have.", ["queue"], registry=registry
        )
        self.writes = Gauge(
            "windlass_writes_waiting", "Writes that have not begun.", registry=registry
        )

        self.history_lost = Counter(
            "windlass_history_lost_total", "Cycles missing in the history.", registry=registry
        )

    def planned(self, plan: Plan, cluster: Cluster) -> None:
        """Update the metrics from the plan of one step."""
        self.binds.inc(len(plan.binds))
        self.requests.inc(len(plan.asks))
        waits = Tally(
            decision.queue
            for decision in plan.decisions
            if decision.verdict in (Verdict.WAITS, Verdict.NEVER)
        )
        for queue in cluster.queues:
            self.waiting.labels(queue).set(waits.get(queue, 0))
            self.gpus.labels(queue).set(cluster.allocated(queue, GPU) / 1000)
            self.shares.labels(queue).set(plan.shares.get(queue, {}).get(GPU, 0) / 1000)

    def save_ended(self, outcome: str, waited_s: int) -> None:
        """Count a checkpoint request that has ended, and the seconds it took."""
        self.saves.labels(outcome).inc()
        self.save_wait.observe(waited_s)

    def text(self) -> bytes:
        """Return all metrics in the text format of Prometheus."""
        return generate_latest(self.registry)
