"""What an API server refuses in a manifest, of all that decides where its pods can run.

Objects of a cluster have been judged by its API server; a file has been judged by nobody, and what
the readers of live objects pass over would be answered as if it had never been written.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, cast

from windlass.model.units import parse_quantity, shown_value
from windlass.model.validation.problems import LONGEST_NAME, InputProblem, Path
from windlass.workloads.objects.spec_fields import Spec, inner, is_number, text
from windlass.workloads.pods.requests import GPU

COUNTS = frozenset(
    {"completions", "parallelism", "replicas", "minReplicas", "numOfHosts", "size", "minAvailable"}
)
"""Fields of owners that say how many pods there are."""
_FREE = frozenset({"metadata", "selector", "annotations", "labels", "nodeSelector"})
"""Whose keys users choose."""
_NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_MOST_PODS = (1 << 31) - 1
_NATIVE = ("cpu", "memory", "ephemeral-storage")
_CONTAINERS = ("containers", "initContainers")


def problems(manifest: Spec, counts: frozenset[str] = COUNTS) -> Iterator[InputProblem]:
    """What is wrong with the manifest of a job or a pod; `counts` are fields that its kind has."""
    yield from _name(manifest)
    yield from _of(inner(manifest, "spec"), ("spec",), counts)


def repeated(names: Iterable[tuple[str, str]]) -> Iterator[tuple[int, InputProblem]]:
    """Objects of the same kind and name, with their number in the row."""
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


def _name(manifest: Spec) -> Iterator[InputProblem]:
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


def _of(value: object, path: Path, counts: frozenset[str]) -> Iterator[InputProblem]:
    """The counts and the pods in a spec, wherever they stand in it."""
    if isinstance(value, list):
        for at, each in enumerate(cast(list[object], value)):
            yield from _of(each, (*path, at), counts)
    if not isinstance(value, dict):
        return
    spec = cast(dict[str, Any], value)
    if "containers" in spec:
        yield from _of_pod(spec, path)
        return
    for key, each in spec.items():
        if key in counts:
            yield from _count(each, (*path, key))
        elif key not in _FREE:
            yield from _of(each, (*path, key), counts)


def _count(found: object, path: Path) -> Iterator[InputProblem]:
    if found is not None and not (is_number(found) and 0 <= found <= _MOST_PODS):
        what = f"{path[-1]} is {shown_value(found)}; write a whole number from 0 on"
        yield InputProblem(path, what)


def _of_pod(spec: Spec, path: Path) -> Iterator[InputProblem]:
    if not spec.get("containers"):
        yield InputProblem(path, "a pod without containers does nothing; give it one")
    for key in _CONTAINERS:
        some = spec.get(key)
        for at, each in enumerate(cast(list[object], some) if isinstance(some, list) else []):
            if isinstance(each, dict):
                resources = inner(cast(Spec, each), "resources")
                yield from _resources(resources, (*path, key, at, "resources"))
    yield from _resources(inner(spec, "resources"), (*path, "resources"))
    yield from _amounts(inner(spec, "overhead"), (*path, "overhead"))


def _resources(resources: Spec, path: Path) -> Iterator[InputProblem]:
    requests, limits = inner(resources, "requests"), inner(resources, "limits")
    wrong = [
        *_amounts(requests, (*path, "requests")),
        *_amounts(limits, (*path, "limits")),
    ]
    yield from wrong
    for name in () if wrong else requests:
        yield from _together(name, requests, limits, (*path, "requests", name))


def _amounts(amounts: Spec, path: Path) -> Iterator[InputProblem]:
    for name, found in amounts.items():
        number = None if isinstance(found, bool) else parse_quantity(str(found))
        at = (*path, name)
        if _is_counted(name) and "/" not in name:
            known = ", ".join((*_NATIVE, GPU))
            yield InputProblem(
                at, f"{name} is no resource that Kubernetes knows; write one like {known}"
            )
        elif number is None:
            wanted = "an amount, like 8" if _is_counted(name) else "an amount, like 8, 500m or 64Gi"
            yield InputProblem(
                at, f"{name} is {shown_value(found)}, which is no amount; write {wanted}"
            )
        elif number < 0:
            yield InputProblem(at, f"{name} is {shown_value(found)}, below zero; write 0 or more")
        elif _is_counted(name) and number != number.to_integral_value():
            yield InputProblem(
                at, f"{name} is {shown_value(found)}; it is given whole, so write a whole one"
            )


def _together(name: str, requests: Spec, limits: Spec, path: Path) -> Iterator[InputProblem]:
    """A request and its limit: what is not shared is given as it is asked for."""
    asked, most = parse_quantity(str(requests[name])), parse_quantity(str(limits.get(name)))
    if most is None:
        if _is_counted(name):
            yield InputProblem(path, f"{name} has a request and no limit; write it as a limit")
    elif asked is not None and asked > most:
        found = f"{name} is {shown_value(requests[name])} as a request, above its limit"
        yield InputProblem(
            path, f"{found} of {shown_value(limits[name])}; lower the one or raise the other"
        )
    elif asked != most and _is_counted(name):
        found = (
            f"{name} is {shown_value(requests[name])} as a request and {shown_value(limits[name])}"
        )
        yield InputProblem(path, f"{found} as a limit; write the same for both")


def _is_counted(name: str) -> bool:
    """Is it given in whole pieces, such as GPUs? Only what nodes have by themselves is not."""
    return name not in _NATIVE and not name.startswith("hugepages-")
