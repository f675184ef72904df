"""The faults for which an API server would refuse a manifest, in fields that affect placement.

Objects of a cluster were validated by its API server, so that the readers of live objects silently
ignore what they cannot read. In a file such a value must be reported: without that, the answer
would be for a manifest without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from windlass.model.units import parse_quantity, shown_value
from windlass.model.validation import LONGEST_NAME, InputProblem, Path
from windlass.workloads.objects import Spec, inner, is_number, text
from windlass.workloads.pods import GPU

COUNTS = frozenset(
    {"completions", "parallelism", "replicas", "minReplicas", "numOfHosts", "size", "minAvailable"}
)
"""The fields of owners that set a number of pods."""
_FREE = frozenset({"metadata", "selector", "annotations", "labels", "nodeSelector"})
"""The fields whose keys users choose; they are not searched for counts."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST_PODS = (1 << 31) - 1
_NATIVE = ("cpu", "memory", "ephemeral-storage")
"""The divisible resources that every node has."""
_CONTAINERS = ("containers", "initContainers")


def problems(manifest: Spec, counts: frozenset[str] = COUNTS) -> Iterator[InputProblem]:
    """Yield the faults of the manifest of a job or a pod; `counts` names its fields with counts."""
    yield from _check_name(manifest)
    yield from _check_spec(inner(manifest, "spec"), ("spec",), counts)


def repeated_names(names: Iterable[tuple[str, str]]) -> Iterator[tuple[int, InputProblem]]:
    """Yield a fault, with its position, for each kind and name that occurred before."""
    seen: set[tuple[str, str]] = set()
    for at, (kind, name) in enumerate(names):
        if name and (kind, name) in seen:
            yield (
                at,
                InputProblem(
                    ("metadata", "name"), f"{kind} {name} occurs twice; rename or remove one"
                ),
            )
        seen.add((kind, name))


def _check_name(manifest: Spec) -> Iterator[InputProblem]:
    meta, kind = inner(manifest, "metadata"), text(manifest, "kind")
    name = meta.get("name")
    if not name and not text(meta, "generateName"):
        yield InputProblem(("metadata",), f"this {kind} has no name; give it one, as metadata.name")
    elif name and not (isinstance(name, str) and _is_name(name)):
        wanted = "small letters, digits, dashes and dots, with a letter or digit at both ends"
        yield InputProblem(
            ("metadata", "name"), f"{shown_value(name)} is no name of a {kind}; write {wanted}"
        )


def _is_name(name: str) -> bool:
    return len(name) <= LONGEST_NAME and _NAME.fullmatch(name) is not None


def _check_spec(value: object, path: Path, counts: frozenset[str]) -> Iterator[InputProblem]:
    """Yield the faults of the counts and pod templates anywhere in a spec."""
    if isinstance(value, list):
        for at, item in enumerate(cast(list[object], value)):
            yield from _check_spec(item, (*path, at), counts)
    if not isinstance(value, dict):
        return
    spec = cast(dict[str, Any], value)
    if "containers" in spec:
        yield from _check_pod(spec, path)
        return
    for key, part in spec.items():
        if key in counts:
            yield from _check_count(part, (*path, key))
        elif key not in _FREE:
            yield from _check_spec(part, (*path, key), counts)


def _check_count(value: object, path: Path) -> Iterator[InputProblem]:
    if value is not None and not (is_number(value) and 0 <= value <= _MOST_PODS):
        what = f"{path[-1]} is {shown_value(value)}; write a whole number from 0 on"
        yield InputProblem(path, what)


def _check_pod(spec: Spec, path: Path) -> Iterator[InputProblem]:
    if not spec.get("containers"):
        yield InputProblem(path, "a pod without containers does nothing; give it one")
    for key in _CONTAINERS:
        listed = spec.get(key)
        containers = cast(list[object], listed) if isinstance(listed, list) else []
        for at, container in enumerate(containers):
            if isinstance(container, dict):
                resources = inner(cast(Spec, container), "resources")
                yield from _check_resources(resources, (*path, key, at, "resources"))
    yield from _check_resources(inner(spec, "resources"), (*path, "resources"))
    yield from _check_amounts(inner(spec, "overhead"), (*path, "overhead"))


def _check_resources(resources: Spec, path: Path) -> Iterator[InputProblem]:
    requests, limits = inner(resources, "requests"), inner(resources, "limits")
    wrong = [
        *_check_amounts(requests, (*path, "requests")),
        *_check_amounts(limits, (*path, "limits")),
    ]
    yield from wrong
    for name in () if wrong else requests:
        yield from _check_limit(name, requests, limits, (*path, "requests", name))


def _check_amounts(amounts: Spec, path: Path) -> Iterator[InputProblem]:
    for name, value in amounts.items():
        number = None if isinstance(value, bool) else parse_quantity(str(value))
        at = (*path, name)
        if _is_counted(name) and "/" not in name:
            known = ", ".join((*_NATIVE, GPU))
            yield InputProblem(
                at, f"{name} is no resource that Kubernetes knows; write one like {known}"
            )
        elif number is None:
            wanted = "an amount, like 8" if _is_counted(name) else "an amount, like 8, 500m or 64Gi"
            yield InputProblem(
                at, f"{name} is {shown_value(value)}, which is no amount; write {wanted}"
            )
        elif number < 0:
            yield InputProblem(at, f"{name} is {shown_value(value)}, below zero; write 0 or more")
        elif _is_counted(name) and number != number.to_integral_value():
            yield InputProblem(
                at, f"{name} is {shown_value(value)}; it is given whole, so write a whole one"
            )


def _check_limit(name: str, requests: Spec, limits: Spec, path: Path) -> Iterator[InputProblem]:
    """Yield the fault of a request and its limit; for whole devices both must be equal."""
    requested, most = parse_quantity(str(requests[name])), parse_quantity(str(limits.get(name)))
    if most is None:
        if _is_counted(name):
            yield InputProblem(path, f"{name} has a request and no limit; write it as a limit")
    elif requested is not None and requested > most:
        fault = f"{name} is {shown_value(requests[name])} as a request, above its limit"
        yield InputProblem(
            path, f"{fault} of {shown_value(limits[name])}; lower the one or raise the other"
        )
    elif requested != most and _is_counted(name):
        fault = (
            f"{name} is {shown_value(requests[name])} as a request and {shown_value(limits[name])}"
        )
        yield InputProblem(path, f"{fault} as a limit; write the same for both")


def _is_counted(name: str) -> bool:
    """Return whether a resource is counted in whole devices, such as GPUs."""
    return name not in _NATIVE and not name.startswith("hugepages-")
