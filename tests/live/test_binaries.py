"""Where the control plane's programs come from, and what is said when they cannot be had.

A build of the real ones takes minutes, so here a script stands for the Go toolchain: it tells its
version, and "builds" a program that tells its own.
"""

from __future__ import annotations

import fcntl
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.live.support.waiting import wait_until
from windlass_lab.control_plane.binaries import OLDEST, ProgramBinary, cache_folder, find, look_for
from windlass_lab.control_plane.errors import PartsMissing
from windlass_lab.control_plane.versions import KUBERNETES_VERSION

GO = """#!{python} -S
import os, sys, time
if sys.argv[1] == "version":
    print("go version go{version} linux/amd64")
    sys.exit()
if sys.argv[1] == "list":
    print({module!r})
    sys.exit()
open({calls!r}, "a").write(sys.argv[-1] + "\\n")
time.sleep(0.2)
if {fails}:
    sys.exit("no such host")
target = sys.argv[sys.argv.index("-o") + 1]
with open(target, "w") as program:
    program.write("#!/bin/sh\\necho Kubernetes {kubernetes}\\n")
os.chmod(target, 0o755)
"""


@pytest.fixture(name="path")
def path_fixture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only folder in PATH; empty, as is the cache."""
    path = tmp_path / "bin"
    path.mkdir()
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("WINDLASS_CACHE", str(tmp_path / "cache"))
    return path


def put(path: Path, name: str, says: str) -> None:
    (path / name).write_text(f"#!/bin/sh\necho '{says}'\n")
    (path / name).chmod(0o755)


def put_go(path: Path, version: str = "1.26.9", fails: bool = False) -> Path:
    calls = path.parent / "calls"
    values = {"python": sys.executable, "calls": str(calls), "kubernetes": KUBERNETES_VERSION}
    values["module"] = str(path.parent / "module")
    (path / "go").write_text(GO.format(version=version, fails=fails, **values))
    (path / "go").chmod(0o755)
    return calls


def put_module(path: Path, *files: str) -> None:
    """The folder of a Go module with these files, read-only as in the module cache."""
    for name in files:
        file = path.parent / "module" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"# {name}\n")
        file.chmod(0o444)


@pytest.mark.usefixtures("path")
def test_a_missing_go_is_told_in_one_sentence():
    with pytest.raises(PartsMissing) as told:
        find(["kube-apiserver", "etcd"])
    sentence = str(told.value)
    assert sentence.count("\n") == 0
    assert "lacks kube-apiserver, etcd" in sentence
    assert "no Go 1.26 or newer" in sentence
    assert "found none in PATH" in sentence


def test_a_go_that_is_too_old_is_named(path: Path):
    put_go(path, "1.19.8")
    with pytest.raises(PartsMissing, match=r"found go1\.19\.8 at .*bin/go"):
        find(["etcd"])


@pytest.mark.parametrize(("version", "taken"), [("3.5.12", False), ("3.5.13", True)])
def test_an_etcd_in_path_is_taken_only_if_it_reports_progress(
    path: Path, version: str, taken: bool
):
    put(path, "etcd", f"etcd Version: {version}")
    assert ("etcd" in look_for(["etcd"])) is taken


def test_programs_of_kubernetes_in_path_are_taken_together_or_not_at_all(path: Path):
    names = ["kube-apiserver", "kube-controller-manager"]
    put(path, "kube-apiserver", "Kubernetes v1.36.9")
    assert look_for(names) == {}
    put(path, "kube-controller-manager", "Kubernetes v1.37.0")
    assert look_for(names) == {}
    put(path, "kube-controller-manager", "Kubernetes v1.36.0")
    assert set(look_for(names)) == set(names)


def test_what_is_cached_is_not_built_again(path: Path):
    calls = put_go(path)
    find(["kube-apiserver"])
    find(["kube-apiserver"])
    assert len(calls.read_text().splitlines()) == 1


def test_who_finds_another_building_waits_says_so_and_does_not_build_again(path: Path):
    calls, told = put_go(path), list[str]()
    cache = cache_folder()
    cache.mkdir(parents=True)
    with cache.with_name(f"{cache.name}.lock").open("w") as lock, ThreadPoolExecutor(1) as pool:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = pool.submit(find, ["kube-apiserver", "kube-scheduler"], told.append)
        wait_until(lambda: any("waiting" in line for line in told))
        put(cache, "kube-apiserver", f"Kubernetes {KUBERNETES_VERSION}")
        fcntl.flock(lock, fcntl.LOCK_UN)
        assert set(found.result()) == {"kube-apiserver", "kube-scheduler"}
    assert calls.read_text().splitlines() == ["k8s.io/kubernetes/cmd/kube-scheduler"]
    assert any(line.startswith("[1/1] Building kube-scheduler") for line in told)


def test_a_controller_is_cached_with_its_manifests_and_needs_no_go_afterwards(path: Path):
    put_go(path)
    put_module(path, "config/crd/bases/lws.yaml", "config/webhook/patches/pods.yaml", "main.go")
    find(["lws"])
    (path / "go").unlink()
    lws = find(["lws"])["lws"]
    copied = {str(each.relative_to(lws.manifests)) for each in lws.manifests.rglob("*.*")}
    assert copied == {"config/crd/bases/lws.yaml", "config/webhook/patches/pods.yaml"}
    assert lws.path.name == f"lws-v{lws.version_text}"


def test_a_controller_is_not_taken_from_path(path: Path):
    put(path, "karpenter", "v99.0.0")
    assert look_for(["karpenter"]) == {}


def test_a_go_that_is_too_old_for_a_controller_is_named(path: Path):
    put_go(path, "1.26.0")
    with pytest.raises(PartsMissing, match=r"no Go 1\.26\.\d+ or newer \(found go1\.26\.0"):
        find(["jobset"])


def test_a_go_that_is_too_old_for_a_controller_still_builds_the_control_plane(path: Path):
    calls = put_go(path, "1.26.0")
    put_module(path, "config/crd/bases/lws.yaml")
    find(["kubectl", "lws"])
    assert calls.read_text().splitlines()[0] == "k8s.io/kubernetes/cmd/kubectl"


def test_a_failed_build_leaves_no_program_and_says_why(path: Path):
    put_go(path, fails=True)
    with pytest.raises(PartsMissing, match=r"kube-apiserver cannot be built: no such host; .*log"):
        find(["kube-apiserver"])
    assert not (cache_folder() / "kube-apiserver").exists()


def test_a_cache_that_cannot_be_written_to_is_told(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    put_go(path)
    (tmp_path / "file").touch()
    monkeypatch.setenv("WINDLASS_CACHE", str(tmp_path / "file"))
    with pytest.raises(PartsMissing, match="set WINDLASS_CACHE"):
        find(["etcd"])


def test_the_parts_that_tests_use_are_new_enough(parts: dict[str, ProgramBinary]):
    assert all(part.version >= OLDEST[name] for name, part in parts.items())
