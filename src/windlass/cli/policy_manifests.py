"""Policies and queues as manifests: what would be in force if they were applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from windlass.cli.files import read_bytes
from windlass.model.errors import InputError

if TYPE_CHECKING:
    from windlass.model.queues import Queue
    from windlass.state.snapshot import Snapshot

MOST_BYTES = 2**20


def read_manifests_file(file: str, snapshot: Snapshot) -> Snapshot:
    """The snapshot with the Policy and the Queues in a file; what it does not name stays."""
    import yaml

    queues: dict[str, Queue] = {each.name: each for each in snapshot.queues}
    settings = snapshot.settings
    try:
        documents: list[Any] = list(yaml.safe_load_all(read_bytes(file, MOST_BYTES)))
    except yaml.YAMLError as error:
        why = getattr(error, "problem", None) or "it cannot be parsed"
        raise InputError(file, None, f"this is not YAML: {why}; correct it") from None
    for each in documents:
        if not each:
            continue
        name, noun = _read(each, file)
        if hasattr(noun, "queue"):
            queues[name] = noun.queue
        else:
            settings = noun
    return replace(snapshot, queues=tuple(queues.values()), settings=settings)


def _read(document: Any, file: str) -> tuple[str, Any]:
    from windlass.crds.read import read_queue, read_settings

    readers = {"Policy": read_settings, "Queue": read_queue}
    found = _inside({"": document}, "")
    kind = found.get("kind")
    if kind not in readers:
        raise InputError(file, None, f"it holds {kind or 'no object'}; give a Policy or Queues")
    name = str(_inside(found, "metadata").get("name", ""))
    read = readers[kind](name, _inside(found, "spec"))
    if read.noun is None:
        first, *more = read.complaints
        raise InputError(file, None, first, len(more))
    return name, read.noun


def _inside(found: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    value = found.get(key)
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}
