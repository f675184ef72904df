"""Policy and Queue manifests: a snapshot as it would be if they were applied."""

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
    """Return the snapshot with the Policy and the Queues of a file; all else stays as it is."""
    import yaml

    queues: dict[str, Queue] = {queue.name: queue for queue in snapshot.queues}
    settings = snapshot.settings
    try:
        documents: list[Any] = list(yaml.safe_load_all(read_bytes(file, MOST_BYTES)))
    except yaml.YAMLError as error:
        why = getattr(error, "problem", None) or "it cannot be parsed"
        raise InputError(file, None, f"this is not YAML: {why}; correct it") from None
    for document in documents:
        if not document:
            continue
        name, noun = _read(document, file)
        if hasattr(noun, "queue"):
            queues[name] = noun.queue
        else:
            settings = noun
    return replace(snapshot, queues=tuple(queues.values()), settings=settings)


def _read(document: Any, file: str) -> tuple[str, Any]:
    """Return the name of an object, and the Settings or the OwnedQueue that it describes."""
    from windlass.crds.read import read_queue, read_settings

    readers = {"Policy": read_settings, "Queue": read_queue}
    manifest = _mapping({"": document}, "")
    kind = manifest.get("kind")
    if kind not in readers:
        raise InputError(file, None, f"it holds {kind or 'no object'}; give a Policy or Queues")
    name = str(_mapping(manifest, "metadata").get("name", ""))
    result = readers[kind](name, _mapping(manifest, "spec"))
    if result.value is None:
        first, *more = result.complaints
        raise InputError(file, None, first, len(more))
    return name, result.value


def _mapping(parent: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return the mapping under a key, or an empty one if there is none."""
    value = parent.get(key)
    return cast(Mapping[str, Any], value) if isinstance(value, dict) else {}
