"""Checks of the GPUs, and of the components of NVIDIA's GPU Operator.

The number of GPUs is taken from allocatable resources: labels are late by up to a minute, and other
programs may write them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.doctor.evidence import DoctorFinding, Evidence, fail, named, ok, place, warn
from windlass.model.gpu.resources import MEMORY, PRODUCT, is_gpu
from windlass.model.units import count_rounded_down
from windlass.model.validation import join_names
from windlass.workloads.objects import wire
from windlass.workloads.pods import GPU

PREFIX = "nvidia.com/"
PRESENT = (f"{GPU}.present", "feature.node.kubernetes.io/pci-10de.present")
"""Labels of nodes that have NVIDIA hardware, whether or not it is offered."""
MIG = f"{PREFIX}mig.config"
DRIVER = f"{PREFIX}cuda.driver-version.full"


def nodes(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that there are GPUs, and that every node offers all GPUs that it has."""
    total = sum(_offered(node) for node in evidence.nodes)
    idle = [node for node in evidence.nodes if _has_hardware(node) and not _offers_any(node)]
    if idle:
        yield fail(
            f"GPUs are there but not offered: {_nodes(idle)}",
            f"see the device plug-in and the driver there: `kubectl describe node {_first(idle)}`",
        )
    partial = [node for node in evidence.nodes if 0 < _offered(node) < _counted(node)]
    if partial:
        yield warn(
            f"fewer GPUs are offered than are there: {_nodes(partial)}",
            "a GPU may be unhealthy: see the device plug-in's log there",
        )
    if total:
        offering = sum(_offered(node) > 0 for node in evidence.nodes)
        yield ok(f"{total} GPUs are offered, by {offering} node{'s' if offering > 1 else ''}")
    others = _other_names(evidence)
    if others:
        yield ok(f"GPUs are offered under other names, and charged to queues: {join_names(others)}")
    if not total and not idle and not others:
        yield warn(f"no node offers {GPU}", "add GPU nodes, and NVIDIA's GPU Operator for them")


def operator(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that NVIDIA's GPU Operator is installed and ready."""
    if not evidence.policies:
        kind = (
            "its ClusterPolicy is missing" if evidence.policies is not None else "it is not there"
        )
        yield warn(
            f"NVIDIA's GPU Operator does not look after the nodes: {kind}",
            "install it, unless drivers and device plug-in come with your nodes",
        )
        return
    for policy in evidence.policies:
        state = policy.status.get("state", "")
        if state == "ready":
            yield ok(f"ClusterPolicy {policy.metadata.name} of the GPU Operator is ready")
        else:
            yield fail(
                f"ClusterPolicy {policy.metadata.name} is {state or 'without a state'}, not ready",
                f"see `kubectl describe clusterpolicy {policy.metadata.name}`",
            )


def drivers(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that all GPU nodes run one major version of the driver."""
    versions = {_labels(node).get(DRIVER, "") for node in _gpu_nodes(evidence)} - {""}
    if len({version.partition(".")[0] for version in versions}) > 1:
        yield warn(
            f"GPU nodes run drivers of several generations: {join_names(sorted(versions))}",
            "upgrade the oldest: a gang may land on both, and images may need the newest",
        )
    elif versions:
        yield ok(f"the driver is {join_names(sorted(versions))}")


def device_plugin(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that the device plug-in is ready on all nodes that should run it."""
    plugins = named(evidence.daemons, "nvidia-device-plugin", "k8s-device-plugin")
    if plugins:
        yield from _daemons(plugins, "device plug-in")
    elif _gpu_nodes(evidence):
        yield ok("no device plug-in was found, but GPUs are offered: your provider has its own")
    else:
        yield warn("no device plug-in was found", "install NVIDIA's GPU Operator")


def discovery(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check the labels of GPU Feature Discovery, and report shared GPUs and mixed MIG layouts."""
    having = _gpu_nodes(evidence)
    bare = [node for node in having if not {PRODUCT, MEMORY} <= _labels(node).keys()]
    if bare:
        yield warn(
            f"labels {PRODUCT} or {MEMORY} are missing, so that the model is not known and does "
            f"not count for guarantees per model: {_nodes(bare)}",
            "enable GPU Feature Discovery (gfd.enabled in the ClusterPolicy)",
        )
    shared = [node for node in having if _labels(node).get(f"{GPU}.replicas", "1") not in "01"]
    if shared:
        yield ok(
            "each GPU is offered several times (time-slicing or MPS), and queues are charged for "
            f"the part: {_nodes(shared)}"
        )
    broken = [node for node in evidence.nodes if "MIG-INVALID" in _labels(node).get(PRODUCT, "")]
    if broken:
        yield fail(
            "MIG layouts are mixed under mig.strategy single, so that no GPU is offered: "
            f"{_nodes(broken)}",
            f"give all GPUs of a node one layout ({MIG}), or use mig.strategy mixed",
        )
    if having and not (bare or shared or broken):
        models = sorted({_labels(node)[PRODUCT] for node in having})
        yield ok(f"all GPU nodes say what they have: {join_names(models)}")


def metrics(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that there is a DCGM exporter, and that it is ready."""
    exporters = named(evidence.daemons, "dcgm-exporter")
    if exporters:
        yield from _daemons(exporters, "DCGM exporter")
    elif _gpu_nodes(evidence):
        yield warn(
            "no DCGM exporter was found, so nobody sees which GPUs are idle or broken",
            "enable it (dcgmExporter.enabled in the ClusterPolicy)",
        )


def mig(evidence: Evidence) -> Iterator[DoctorFinding]:
    """Check that the requested MIG layouts have been applied."""
    requested = [node for node in evidence.nodes if MIG in _labels(node)]
    if not requested:
        yield ok("no node is cut by MIG")
        return
    managers = named(evidence.daemons, "mig-manager")
    if not managers:
        yield warn(
            f"a MIG layout is asked for, but no MIG manager runs: {_nodes(requested)}",
            "enable it (migManager.enabled in the ClusterPolicy)",
        )
    yield from _daemons(managers, "MIG manager")
    states = {node.metadata.name: _labels(node).get(f"{MIG}.state", "") for node in requested}
    for name in sorted(name for name, state in states.items() if state == "failed"):
        yield fail(
            f"node {name} could not be cut as {MIG} asks",
            "see the MIG manager's log on that node, and whether pods held its GPUs",
        )
    changing = sorted(name for name, state in states.items() if state in ("pending", "rebooting"))
    if changing:
        yield warn(
            "MIG layouts are being changed, and no GPU is offered meanwhile: "
            f"{join_names(changing)}",
            "wait until they are done",
        )


def _daemons(daemons: Sequence[wire.Owner], what: str) -> Iterator[DoctorFinding]:
    for daemon in daemons:
        wanted = daemon.status.get("desiredNumberScheduled", 0)
        ready = daemon.status.get("numberReady", 0)
        if ready < wanted:
            yield fail(
                f"{what} {place(daemon)} is ready on {ready} of {wanted} nodes",
                f"see `kubectl -n {daemon.metadata.namespace} describe daemonset "
                f"{daemon.metadata.name}`",
            )
        else:
            yield ok(f"{what} {place(daemon)} is ready on all {ready} nodes")


def _labels(node: wire.NodeObject) -> dict[str, str]:
    return node.metadata.labels or {}


def _offered(node: wire.NodeObject) -> int:
    return count_rounded_down((node.status.allocatable or {}).get(GPU, "0"))


def _offers_any(node: wire.NodeObject) -> bool:
    """Return whether the node offers whole GPUs or slices of them."""
    offers = (node.status.allocatable or {}).items()
    return any(name.startswith(PREFIX) and count_rounded_down(amount) for name, amount in offers)


def _other_names(evidence: Evidence) -> list[str]:
    """Return the resources, other than whole NVIDIA GPUs, that queues are charged for as GPUs."""
    offers = (node.status.allocatable or {} for node in evidence.nodes)
    names = {
        name for offer in offers for name, amount in offer.items() if count_rounded_down(amount)
    }
    return sorted(name for name in names if name != GPU and is_gpu(name))


def _counted(node: wire.NodeObject) -> int:
    """Return the number of GPUs that the labels announce; 0 if they are offered as MIG slices."""
    labels = _labels(node)
    if MIG in labels and labels.get(MIG) != "all-disabled":
        return 0
    replicas = max(1, count_rounded_down(labels.get(f"{GPU}.replicas", "1")))
    return count_rounded_down(labels.get(f"{GPU}.count", "0")) * replicas


def _has_hardware(node: wire.NodeObject) -> bool:
    return any(_labels(node).get(name) == "true" for name in PRESENT)


def _gpu_nodes(evidence: Evidence) -> list[wire.NodeObject]:
    return [node for node in evidence.nodes if _offered(node)]


def _nodes(nodes: Sequence[wire.NodeObject]) -> str:
    names = sorted(node.metadata.name for node in nodes)
    return f"node{'s' if len(names) > 1 else ''} {join_names(names, most=3)}"


def _first(nodes: Sequence[wire.NodeObject]) -> str:
    return min(node.metadata.name for node in nodes)
