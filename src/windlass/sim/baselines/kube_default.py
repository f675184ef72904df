"""The behaviour of kube-scheduler: the baseline that Windlass is compared with.

`default` is a scheduler, a function from the cluster to a plan. It models kube-scheduler with its
default profile and an ordinary device plugin:

- Pod by pod, by priority and then by age. A pod that fits nowhere does not block the next one; it
is tried again whenever something changes (its backoff is left out, in its favour).
- No gangs: each pod binds as soon as it fits and keeps its GPUs while it waits for the others.
Partial gangs never give up, so they can block each other for good.
- No queues, shares or limits: ResourceQuota is not modelled.
- Filters: resources, node selectors and affinity, taints, cordons, pod affinity and anti-affinity,
required spread. The topology domain of a gang is ignored, in its favour.
- Scores as its defaults do: least allocated and balanced over CPU and memory (GPUs do not count
there), node preferences (twofold) and soft taints (threefold). Soft pod affinity, soft spread and
image locality are left out. Ties go to the first name, where kube-scheduler chooses at random.
- No preemption, as Windlass does none in the same comparison.
- The device plugin allocates whole GPUs: a request for a fraction or for GPU memory gets a whole
GPU. MIG instances are allocated as requested and cut on demand, in its favour: a real cluster has
them cut in advance.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from windlass.engine.plan import Decision, Plan, Verdict
from windlass.model.actions import Bind
from windlass.model.constraints import Constraints, Effect, PodTerm, Spread, matches, tolerates
from windlass.model.gpu.mig import Instance, legal_starts, milli_of_profile
from windlass.model.gpus import WHOLE, GpuRequest, Slice
from windlass.model.jobs import OCCUPYING, GangId, Shape, Task, TaskState
from windlass.model.nodes import Node
from windlass.model.reasons import Reason, ReasonCode
from windlass.model.resources import Request
from windlass.state.cluster import Cluster


def default(cluster: Cluster) -> Plan:
    """Return a plan that binds every waiting pod that fits somewhere, one by one."""
    machines, pods = _as_found(cluster)
    binds: list[Bind] = []
    left: dict[GangId, int] = {}
    refused: set[Shape] = set()
    for task in _in_order(cluster):
        left.setdefault(task.gang, 0)
        bind = None if task.shape in refused else _place(task, machines, pods)
        if bind:
            binds.append(bind)
        else:
            left[task.gang] += 1
            if not _can_become_possible(task.shape.constraints):
                refused.add(task.shape)
    return Plan(actions=tuple(binds), decisions=tuple(_decisions(cluster, left)))


@dataclass(slots=True)
class _Machine:
    """The free capacity of a node."""

    node: Node
    cpu_milli: int
    memory_mib: int
    pods: int
    extra: dict[str, int]
    free: list[int]
    """The devices that are wholly free, in order."""
    cut: dict[int, tuple[Instance, ...]]
    """The instances of each MIG device."""

    @classmethod
    def of(cls, node: Node) -> _Machine:
        """Return the whole capacity of a node."""
        healthy = [(i, gpu) for i, gpu in enumerate(node.gpus) if gpu.healthy]
        free = [i for i, gpu in healthy if not gpu.mig]
        cut: dict[int, tuple[Instance, ...]] = {i: () for i, gpu in healthy if gpu.mig}
        amounts = node.cpu_milli, node.memory_mib, node.pods, dict(node.extra)
        return cls(node, *amounts, free, cut)

    def take(self, request: Request, slices: tuple[Slice, ...]) -> None:
        """Give a pod its part."""
        self.cpu_milli -= request.cpu_milli
        self.memory_mib -= request.memory_mib
        self.pods -= 1
        for name, amount in request.extra:
            self.extra[name] = self.extra.get(name, 0) - amount
        for each in slices:
            if each.device in self.cut:
                instance = Instance(each.start, each.profile)
                self.cut[each.device] += (instance,)
            elif each.device in self.free:
                self.free.remove(each.device)

    def has_room(self, request: Request) -> bool:
        """Is there enough of everything but GPUs?"""
        return (
            self.cpu_milli >= request.cpu_milli
            and self.memory_mib >= request.memory_mib
            and self.pods >= 1
            and all(self.extra.get(name, 0) >= amount for name, amount in request.extra)
        )


@dataclass(slots=True)
class _Pods:
    """Pods that occupy nodes, for affinity between pods."""

    cluster: Cluster
    placed: list[tuple[Task, Node]] = field(default_factory=list[tuple[Task, Node]])
    wary: list[tuple[Task, Node]] = field(default_factory=list[tuple[Task, Node]])
    """Those of them that keep others away."""

    def add(self, task: Task, node: Node) -> None:
        """One more pod occupies a node."""
        self.placed.append((task, node))
        if task.shape.constraints.apart:
            self.wary.append((task, node))

    def matching(self, term: PodTerm, of: Task) -> Iterator[Node]:
        """The nodes of the pods that a term of this task means."""
        for task, node in self.placed:
            if self.means(term, of, task):
                yield node

    def means(self, term: PodTerm, of: Task, other: Task) -> bool:
        """Does a term of one task mean the other?"""
        namespaces = term.namespaces or (self.namespace(of),)
        if "*" not in namespaces and self.namespace(other) not in namespaces:
            return False
        return matches(term.selector, dict(other.labels))

    def namespace(self, task: Task) -> str:
        """Return the namespace of a task."""
        return self.cluster.gangs[task.gang].namespace


def _as_found(cluster: Cluster) -> tuple[dict[str, _Machine], _Pods]:
    machines = {name: _Machine.of(cluster.nodes[name]) for name in sorted(cluster.nodes)}
    pods = _Pods(cluster)
    for task in cluster.tasks.values():
        if task.state in OCCUPYING and task.node in machines:
            machines[task.node].take(task.shape.request, task.devices)
            pods.add(task, cluster.nodes[task.node])
    return machines, pods


def _in_order(cluster: Cluster) -> list[Task]:
    """The waiting pods: the higher priority first, then the older."""
    waiting = (each for each in cluster.tasks.values() if each.state is TaskState.WAITING)

    def key(task: Task) -> tuple[int, int, str, str]:
        gang = cluster.gangs[task.gang]
        return (-gang.priority, gang.created_at, gang.id, task.id)

    return sorted(waiting, key=key)


def _can_become_possible(constraints: Constraints) -> bool:
    """Binding others only takes room away, but it may bring the neighbours a pod asks for."""
    return bool(constraints.near or constraints.spread)


def _place(task: Task, machines: Mapping[str, _Machine], pods: _Pods) -> Bind | None:
    best: tuple[int, _Machine, tuple[Slice, ...]] | None = None
    for machine in machines.values():
        slices = _fit(task, machine, pods)
        if slices is not None:
            score = _score(task.shape, machine)
            if best is None or score > best[0]:
                best = (score, machine, slices)
    if best is None:
        return None
    _, machine, slices = best
    machine.take(task.shape.request, slices)
    pods.add(task, machine.node)
    return Bind(task.id, machine.node.name, slices)


def _fit(task: Task, machine: _Machine, pods: _Pods) -> tuple[Slice, ...] | None:
    """The devices that the pod would get there; None where it cannot run."""
    shape = task.shape
    if not machine.has_room(shape.request):
        return None
    slices = _devices(shape.request.gpu, machine)
    if slices is None or not _admits(shape.constraints, machine.node):
        return None
    return slices if _suits_neighbours(task, machine.node, pods) else None


def _devices(gpu: GpuRequest | None, machine: _Machine) -> tuple[Slice, ...] | None:
    if gpu is None:
        return ()
    if gpu.profile:
        return _instances(gpu, machine)
    cards = machine.node.gpus
    fitting = [
        i
        for i in machine.free
        if (not gpu.models or cards[i].model in gpu.models)
        and cards[i].memory_mib >= gpu.memory_mib
    ]
    if len(fitting) < gpu.count:
        return None
    return tuple(Slice(i, WHOLE) for i in fitting[: gpu.count])


def _instances(gpu: GpuRequest, machine: _Machine) -> tuple[Slice, ...] | None:
    found: list[Slice] = []
    for device, there in machine.cut.items():
        model = machine.node.gpus[device].model
        if gpu.models and model not in gpu.models:
            continue
        cut = there
        while len(found) < gpu.count and (starts := legal_starts(model, cut, gpu.profile)):
            milli = milli_of_profile(model, gpu.profile)
            found.append(Slice(device, milli, gpu.profile, starts[0]))
            cut += (Instance(starts[0], gpu.profile),)
    return tuple(found) if len(found) == gpu.count else None


def _admits(constraints: Constraints, node: Node) -> bool:
    """Do cordon, selector, affinity and taints allow it?"""
    if not node.is_open or any(node.labels.get(k) != v for k, v in constraints.selector):
        return False
    if constraints.affinity and not any(matches(t, node.labels) for t in constraints.affinity):
        return False
    return all(
        taint.effect is Effect.PREFER_NO_SCHEDULE or tolerates(constraints.tolerations, taint)
        for taint in node.taints
    )


def _suits_neighbours(task: Task, node: Node, pods: _Pods) -> bool:
    constraints = task.shape.constraints
    return (
        all(_is_near(task, term, node, pods) for term in constraints.near)
        and not any(_is_beside(task, term, node, pods) for term in constraints.apart)
        and all(_stays_even(task, spread, node, pods) for spread in constraints.spread)
        and not any(
            _same_domain(term, node, there) and pods.means(term, other, task)
            for other, there in pods.wary
            for term in other.shape.constraints.apart
        )
    )


def _is_near(task: Task, term: PodTerm, node: Node, pods: _Pods) -> bool:
    there = list(pods.matching(term, task))
    if not there and pods.means(term, task, task):
        return term.topology_key in node.labels  # the first of its kind may start anywhere
    return any(_same_domain(term, node, each) for each in there)


def _is_beside(task: Task, term: PodTerm, node: Node, pods: _Pods) -> bool:
    return any(_same_domain(term, node, each) for each in pods.matching(term, task))


def _same_domain(term: PodTerm, one: Node, other: Node) -> bool:
    key = term.topology_key
    return key in one.labels and one.labels[key] == other.labels.get(key)


def _stays_even(task: Task, spread: Spread, node: Node, pods: _Pods) -> bool:
    if not spread.required:
        return True
    key, constraints = spread.topology_key, task.shape.constraints
    if key not in node.labels:
        return False
    counts = {
        each.labels[key]: 0
        for each in pods.cluster.nodes.values()
        if key in each.labels and _admits(constraints, each)
    }
    for there in pods.matching(PodTerm(spread.selector, key), task):
        if there.labels.get(key) in counts:
            counts[there.labels[key]] += 1
    itself = matches(spread.selector, dict(task.labels))
    return counts.get(node.labels[key], 0) + itself - min(counts.values()) <= spread.max_skew


def _score(shape: Shape, machine: _Machine) -> int:
    """Return the score of a node, higher is better; each part has up to 100 points, as in
    kube-scheduler."""
    node, request = machine.node, shape.request
    cpu = _left(machine.cpu_milli - request.cpu_milli, node.cpu_milli)
    memory = _left(machine.memory_mib - request.memory_mib, node.memory_mib)
    least = (cpu + memory) // 2
    balanced = 100 - abs(cpu - memory) // 2
    wishes = shape.constraints.preferences
    liked = sum(each.weight for each in wishes if matches(each.term, node.labels))
    preferred = 100 * liked // max(1, sum(abs(each.weight) for each in wishes))
    soft = sum(
        taint.effect is Effect.PREFER_NO_SCHEDULE
        and not tolerates(shape.constraints.tolerations, taint)
        for taint in node.taints
    )
    return least + balanced + 2 * preferred + 3 * (100 if soft == 0 else 0)


def _left(amount: int, of: int) -> int:
    return 100 * amount // of if of else 0


def _decisions(cluster: Cluster, left: Mapping[GangId, int]) -> Iterator[Decision]:
    position = 0
    for gang, missing in left.items():
        queue = cluster.gangs[gang].queue
        if not missing:
            yield Decision(gang, queue, Verdict.PLACED)
            continue
        position += 1
        cause = f"{missing} pods do not fit, each for itself"
        reason = Reason(ReasonCode.REFUSED_BY, {"nodes": len(cluster.nodes), "cause": cause})
        yield Decision(gang, queue, Verdict.WAITS, (reason,), position)
