"""The environment of a pod's process, as a container would see it: pure.

There are no mounts, so variables name the files: the annotations of the downward API and the
termination message. The address of the pod is on loopback.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

from windlass_lab.fake_kubelet.wire import Container, Pod, Variable

_MAP = re.compile(r"metadata\.(labels|annotations)\['(.+)'\]")


def environment(pod: Pod, container: Container, ip: str, folder: Path) -> dict[str, str]:
    """Return the variables of a container; its own variables override the defaults."""
    ours = {
        "WINDLASS_CHECKPOINT_FILE": str(shown_at(folder)),
        "WINDLASS_CHECKPOINT_HOST": ip,
        "WINDLASS_TERMINATION_LOG": str(last_word_at(folder)),
    }
    return ours | {each.name: _value(pod, each, ip) for each in container.env}


def shown_at(folder: Path) -> Path:
    """Return the file of the downward API that contains all annotations."""
    return folder / "annotations"


def last_word_at(folder: Path) -> Path:
    """Return the file in which the process leaves its termination message."""
    return folder / "termination-log"


def shown(annotations: dict[str, str]) -> str:
    """Return annotations in the format of the downward API: sorted, one per line, quoted."""
    lines = (f"{key}={json.dumps(annotations[key])}" for key in sorted(annotations))
    return "\n".join(lines)


def _value(pod: Pod, variable: Variable, ip: str) -> str:
    """Return the value of a variable, or of the field that it names."""
    if variable.value_from is None or variable.value_from.field_ref is None:
        return variable.value
    path, meta = variable.value_from.field_ref.field_path, pod.metadata
    if found := _MAP.fullmatch(path):
        chosen = meta.labels if found[1] == "labels" else meta.annotations
        return chosen.get(found[2], "")
    fields = {
        "metadata.name": meta.name,
        "metadata.namespace": meta.namespace,
        "metadata.uid": meta.uid,
        "spec.nodeName": pod.spec.node_name,
        "status.podIP": ip,
    }
    return fields.get(path, "")
