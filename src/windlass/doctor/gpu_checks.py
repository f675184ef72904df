"""Checks of the GPUs, and of what NVIDIA's operator puts around them.

Allocatable resources are what counts: labels lag behind by a minute, and others may write them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from windlass.doctor.evidence import DoctorFinding, Evidence, fail, named, ok, place, warn
from windlass.model.gpu_resources import MEMORY, PRODUCT, is_gpu
from windlass.model.units import count_rounded_down
from windlass.model.validation.problems import listed
from windlass.workloads.objects import wire
from windlass.workloads.pods.requests import GPU

PREFIX = "nvidia.com/"
PRESENT = (f"{GPU}.present", "feature.node.kubernetes.io/pci-10de.present")
"""Labels of nodes that have NVIDIA hardware, whether or not it is offered."""
MIG = f"{PREFIX}mig.config"
DRIVER = f"{PREFIX}cuda.driver-version.full"


def nodes(found: Evidence) -> Iterator[DoctorFinding]:
    """Are there GPUs, and does every node that has some offer them all?"""
    total = sum(_offered(each) for each in found.nodes)
    idle = [each for each in found.nodes if _has_hardware(each) and not _offers_any(each)]
    if idle:
        yield fail(
            f"GPUs are there but not offered: {_nodes(idle)}",
            f"see the device plug-in and the driver there: `kubectl describe node {_first(idle)}`",
        )
    partial = [each for each in found.nodes if 0 < _offered(each) < _counted(each)]
    if partial:
        yield warn(
            f"fewer GPUs are offered than are there: {_nodes(partial)}",
            "a GPU may be unhealthy: see the device plug-in's log there",
        )
    if total:
        having = sum(_offered(each) > 0 for each in found.nodes)
        yield ok(f"{total} GPUs are offered, by {having} node{'s' if having > 1 else ''}")
    others = _other_names(found)
    if others:
        yield ok(f"GPUs are offered under other names, and charged to queues: {listed(others)}")
    if not total and not idle and not others:
        yield warn(f"no node offers {GPU}", "add GPU nodes, and NVIDIA's GPU Operator for them")


def operator(found: Evidence) -> Iterator[DoctorFinding]:
    """Is NVIDIA's GPU Operator installed, and content?"""
    if not found.policies:
        kind = "its ClusterPolicy is missing" if found.policies is not None else "it is not there"
        yield warn(
            f"NVIDIA's GPU Operator does not look after the nodes: {kind}",
            "install it, unless drivers and device plug-in come with your nodes",
        )
        return
    for each in found.policies:
        state = each.status.get("state", "")
        if state == "ready":
            yield ok(f"ClusterPolicy {each.metadata.name} of the GPU Operator is ready")
        else:
            yield fail(
                f"ClusterPolicy {each.metadata.name} is {state or 'without a state'}, not ready",
                f"see `kubectl describe clusterpolicy {each.metadata.name}`",
            )


def drivers(found: Evidence) -> Iterator[DoctorFinding]:
    """Does one generation of the driver run everywhere?"""
    there = {_labels(each).get(DRIVER, "") for each in _gpu_nodes(found)} - {""}
    if len({each.partition(".")[0] for each in there}) > 1:
        yield warn(
            f"GPU nodes run drivers of several generations: {listed(sorted(there))}",
            "upgrade the oldest: a gang may land on both, and images may need the newest",
        )
    elif there:
        yield ok(f"the driver is {listed(sorted(there))}")


def device_plugin(found: Evidence) -> Iterator[DoctorFinding]:
    """Does the device plug-in run wherever it should?"""
    plugins = named(found.daemons, "nvidia-device-plugin", "k8s-device-plugin")
    if plugins:
        yield from _daemons(plugins, "device plug-in")
    elif _gpu_nodes(found):
        yield ok("no device plug-in was found, but GPUs are offered: your provider has its own")
    else:
        yield warn("no device plug-in was found", "install NVIDIA's GPU Operator")


def discovery(found: Evidence) -> Iterator[DoctorFinding]:
    """Does GPU Feature Discovery say what GPUs there are?"""
    having = _gpu_nodes(found)
    bare = [each for each in having if not {PRODUCT, MEMORY} <= _labels(each).keys()]
    if bare:
        yield warn(
            f"labels {PRODUCT} or {MEMORY} are missing, so that the model is not known and does "
            f"not count for guarantees per model: {_nodes(bare)}",
            "enable GPU Feature Discovery (gfd.enabled in the ClusterPolicy)",
        )
    shared = [each for each in having if _labels(each).get(f"{GPU}.replicas", "1") not in "01"]
    if shared:
        yield ok(
            "each GPU is offered several times (time-slicing or MPS), and queues are charged for "
            f"the part: {_nodes(shared)}"
        )
    broken = [each for each in found.nodes if "MIG-INVALID" in _labels(each).get(PRODUCT, "")]
    if broken:
        yield fail(
            "MIG layouts are mixed under mig.strategy single, so that no GPU is offered: "
            f"{_nodes(broken)}",
            f"give all GPUs of a node one layout ({MIG}), or use mig.strategy mixed",
        )
    if having and not (bare or shared or broken):
        models = sorted({_labels(each)[PRODUCT] for each in having})
        yield ok(f"all GPU nodes say what they have: {listed(models)}")


def metrics(found: Evidence) -> Iterator[DoctorFinding]:
    """Is there anybody who measures GPUs?"""
    exporters = named(found.daemons, "dcgm-exporter")
    if exporters:
        yield from _daemons(exporters, "DCGM exporter")
    elif _gpu_nodes(found):
        yield warn(
            "no DCGM exporter was found, so nobody sees which GPUs are idle or broken",
            "enable it (dcgmExporter.enabled in the ClusterPolicy)",
        )


def mig(found: Evidence) -> Iterator[DoctorFinding]:
    """Do MIG layouts that were asked for come about?"""
    asked = [each for each in found.nodes if MIG in _labels(each)]
    if not asked:
        yield ok("no node is cut by MIG")
        return
    managers = named(found.daemons, "mig-manager")
    if not managers:
        yield warn(
            f"a MIG layout is asked for, but no MIG manager runs: {_nodes(asked)}",
            "enable it (migManager.enabled in the ClusterPolicy)",
        )
    yield from _daemons(managers, "MIG manager")
    states = {each.metadata.name: _labels(each).get(f"{MIG}.state", "") for each in asked}
    for name in sorted(name for name, state in states.items() if state == "failed"):
        yield fail(
            f"node {name} could not be cut as {MIG} asks",
            "see the MIG manager's log on that node, and whether pods held its GPUs",
        )
    changing = sorted(name for name, state in states.items() if state in ("pending", "rebooting"))
    if changing:
        yield warn(
            f"MIG layouts are being changed, and no GPU is offered meanwhile: {listed(changing)}",
            "wait until they are done",
        )


def _daemons(daemons: Sequence[wire.Owner], what: str) -> Iterator[DoctorFinding]:
    for each in daemons:
        wanted = each.status.get("desiredNumberScheduled", 0)
        ready = each.status.get("numberReady", 0)
        if ready < wanted:
            yield fail(
                f"{what} {place(each)} is ready on {ready} of {wanted} nodes",
                f"see `kubectl -n {each.metadata.namespace} describe daemonset "
                f"{each.metadata.name}`",
            )
        else:
            yield ok(f"{what} {place(each)} is ready on all {ready} nodes")


def _labels(node: wire.NodeObject) -> dict[str, str]:
    return node.metadata.labels or {}


def _offered(node: wire.NodeObject) -> int:
    return count_rounded_down((node.status.allocatable or {}).get(GPU, "0"))


def _offers_any(node: wire.NodeObject) -> bool:
    """Whole GPUs, or slices of them."""
    offers = (node.status.allocatable or {}).items()
    return any(name.startswith(PREFIX) and count_rounded_down(amount) for name, amount in offers)


def _other_names(found: Evidence) -> list[str]:
    """The resources other than whole NVIDIA GPUs that nodes offer and queues are charged for."""
    offers = (each.status.allocatable or {} for each in found.nodes)
    names = {
        name for offer in offers for name, amount in offer.items() if count_rounded_down(amount)
    }
    return sorted(name for name in names if name != GPU and is_gpu(name))


def _counted(node: wire.NodeObject) -> int:
    """What GPU Feature Discovery counts, less what is cut by MIG and offered as slices."""
    labels = _labels(node)
    if MIG in labels and labels.get(MIG) != "all-disabled":
        return 0
    replicas = max(1, count_rounded_down(labels.get(f"{GPU}.replicas", "1")))
    return count_rounded_down(labels.get(f"{GPU}.count", "0")) * replicas


def _has_hardware(node: wire.NodeObject) -> bool:
    return any(_labels(node).get(name) == "true" for name in PRESENT)


def _gpu_nodes(found: Evidence) -> list[wire.NodeObject]:
    return [each for each in found.nodes if _offered(each)]


def _nodes(those: Sequence[wire.NodeObject]) -> str:
    names = sorted(each.metadata.name for each in those)
    return f"node{'s' if len(names) > 1 else ''} {listed(names, most=3)}"


def _first(those: Sequence[wire.NodeObject]) -> str:
    return min(each.metadata.name for each in those)
