"""A simulation at one moment, in the words of a scenario."""

from __future__ import annotations

from collections.abc import Iterable

from windlass.engine.cycle import plan
from windlass.engine.plan import Decision, Verdict
from windlass.model.jobs import ACTIVE, GangId, Task
from windlass.sim.records import GangRecord, GangStage
from windlass.sim.run import Simulation
from windlass.sim.scenario.read import Scenario


class ScenarioView:
    """The values that expectations and explanations compare; use it before the simulation
    goes on."""

    def __init__(self, simulation: Simulation, scenario: Scenario) -> None:
        self.simulation = simulation
        self.cluster = simulation.cluster
        self.scenario = scenario
        self.now = simulation.cluster.now
        self.plan = plan(simulation.cluster)
        self._decisions = {each.gang: each for each in self.plan.decisions}

    def copies(self, job: str) -> tuple[str, ...]:
        """Return the copies of a job, or the job itself."""
        return self.scenario.copies.get(job, (job,))

    def record(self, copy: str) -> GangRecord | None:
        """Return the record of one copy; None before it is submitted."""
        return self.simulation.records.get(GangId(copy))

    def decision(self, copy: str) -> Decision | None:
        """Return the latest decision about one copy; None if there is none."""
        return self._decisions.get(GangId(copy))

    def state(self, copy: str) -> str:
        """Return the state of one copy of a job, as scenario files write it."""
        record = self.record(copy)
        if record is None:
            return "absent"
        decision = self.decision(copy)
        if record.stage == GangStage.WAITING and decision and decision.verdict == Verdict.NEVER:
            return "never"
        return record.stage.value.lower()

    def waited(self, copy: str) -> int | None:
        """Return the seconds that one copy has waited or waited until its start; None before it is
        submitted."""
        record = self.record(copy)
        if record is None:
            return None
        ends = (record.started, record.ended, self.now)
        return next(end for end in ends if end is not None) - record.submitted

    def active(self, copies: Iterable[str]) -> list[Task]:
        """Return the tasks of these copies that are bound or run."""
        members = (task for copy in copies for task in self.cluster.members(GangId(copy)))
        return sorted((task for task in members if task.state in ACTIVE), key=lambda each: each.id)

    def models(self, tasks: Iterable[Task]) -> list[str]:
        """Return the GPU models of these tasks."""
        nodes = self.cluster.nodes
        return sorted(
            {nodes[task.node].gpus[part.device].model for task in tasks for part in task.devices}
        )

    def domains(self, tasks: Iterable[Task], level: str) -> list[str]:
        """Return the domains of a level (a node label) in which these tasks are."""
        nodes = self.cluster.nodes
        return sorted({nodes[task.node].labels.get(level, "none") for task in tasks})
