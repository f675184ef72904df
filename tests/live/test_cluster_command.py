"""`windlass cluster` gives a person a control plane to work with, and takes it away again."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.live.support.kubectl import Kubectl
from windlass_lab.control_plane.binaries import ProgramBinary

WINDLASS = [sys.executable, "-c", "from windlass_lab.commands.cluster import command; command()"]


@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM], ids=["Ctrl-C", "SIGTERM"])
def test_a_cluster_can_be_used_as_it_says_until_it_is_asked_to_end(
    parts: dict[str, ProgramBinary], tmp_path: Path, end: signal.Signals
):
    access = tmp_path / "cluster" / "kubeconfig"
    words = [*WINDLASS, "--kubeconfig", str(access)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as cluster:
        assert cluster.stdout
        said = [cluster.stdout.readline() for _ in range(3)]
        assert f"Kubernetes {parts['kube-apiserver'].version_text}" in said[0]
        assert f"export KUBECONFIG={access}" in said[1]
        assert f"{parts['kubectl'].path} get namespaces" in said[2]
        assert access.stat().st_mode & 0o077 == 0
        assert Kubectl(parts["kubectl"].path, access).get("namespaces")["items"]
        cluster.send_signal(end)
        assert cluster.wait() == 0
    assert not access.exists()


def test_the_versions_of_all_parts_can_be_asked_for(parts: dict[str, ProgramBinary]):
    words = [*WINDLASS, "--version"]
    said = subprocess.run(words, capture_output=True, text=True, check=True).stdout
    for name, part in parts.items():
        assert any(
            {name, f"v{part.version_text}"} <= set(line.split()) for line in said.split("\n")
        )
