"""A real control plane for the tests in this folder.

- `plane`: one for all tests of a process. With WINDLASS_KUBECONFIG=file it is that cluster instead.
- `namespace`: a fresh one in it, ready for pods.
- `fresh_plane`: one for this test alone, to be broken; `Options` by indirect parametrization.
- `kubectl`: the program, with an administrator's access to `plane`.
- `controllers`: real controllers of other projects, on a control plane that all tests of a process
  share for them. `jobset`, `lws`, `trainer` and `karpenter` start one each, once.
- `windlass`: our own, looking at the scene that the test's file has `made`.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, cast

import pytest

from tests.live.support.controllers import Controllers, FindParts, running_controllers
from tests.live.support.kubectl import Kubectl
from tests.live.support.scene import Scene
from tests.live.support.shell import Shell, shell
from windlass_lab.control_plane.binaries import NAMES, ProgramBinary, find
from windlass_lab.control_plane.errors import PartsMissing
from windlass_lab.control_plane.plane import Plane
from windlass_lab.control_plane.process import Process

if TYPE_CHECKING:
    from windlass.kube.client.auth import Access

Require = Callable[[Any, str], Any]
HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """On a busy machine the collector finds what an earlier test, already over, was closing."""
    late = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(late)


class Borrowed:
    """A cluster that others run: it can be used, but not broken."""

    def __init__(self, kubeconfig: Path, require: Require) -> None:
        self.kubeconfig = kubeconfig
        self._require = require

    @property
    def server(self) -> str:
        return self.api_access().server

    def api_access(self) -> Access:
        from windlass.kube.client.auth import load

        return load(str(self.kubeconfig), None)

    def __getattr__(self, name: str) -> NoReturn:
        self._require(None, f"`{name}` needs a plane of our own, but WINDLASS_KUBECONFIG is set.")
        raise AttributeError(name)


@pytest.fixture(scope="session")
def find_parts(pytestconfig: pytest.Config, require: Require) -> FindParts:
    """Programs by name, built if need be; that takes minutes, so its progress is shown."""

    def find_or_skip(names: Sequence[str]) -> dict[str, ProgramBinary]:
        capture: Any = pytestconfig.pluginmanager.getplugin("capturemanager")
        try:
            with capture.global_and_fixture_disabled():
                return find(names)
        except PartsMissing as error:
            return require(None, str(error))

    return find_or_skip


@pytest.fixture(scope="session")
def parts(find_parts: FindParts) -> dict[str, ProgramBinary]:
    """All programs of the control plane."""
    return find_parts(NAMES)


@pytest.fixture(scope="session")
def plane(find_parts: FindParts, require: Require) -> Iterator[Plane]:
    """A control plane that all tests of this process share."""
    if kubeconfig := os.environ.get("WINDLASS_KUBECONFIG"):
        yield cast(Plane, Borrowed(Path(kubeconfig), require))
        return
    find_parts(NAMES)
    with Plane() as own:
        yield own


@pytest.fixture
def fresh_plane(
    request: pytest.FixtureRequest, find_parts: FindParts, require: Require
) -> Iterator[Plane]:
    """A control plane for one test, which may break it."""
    borrowed = os.environ.get("WINDLASS_KUBECONFIG")
    require(not borrowed, "This test breaks its plane, but WINDLASS_KUBECONFIG is set.")
    find_parts(NAMES)
    with Plane(getattr(request, "param", None)) as own:
        yield own


@pytest.fixture(scope="session")
def controllers(find_parts: FindParts, require: Require) -> Iterator[Controllers]:
    """Controllers of other projects on a plane of their own, where the kinds are really theirs."""
    borrowed = os.environ.get("WINDLASS_KUBECONFIG")
    require(not borrowed, "Controllers need a plane of our own, but WINDLASS_KUBECONFIG is set.")
    find_parts(NAMES)
    with Plane() as own, running_controllers(own, find_parts) as made:
        yield made


@pytest.fixture(scope="session")
def jobset(controllers: Controllers) -> Process:
    """The JobSet controller."""
    return controllers.start("jobset")


@pytest.fixture(scope="session")
def lws(controllers: Controllers) -> Process:
    """The LeaderWorkerSet controller."""
    return controllers.start("lws")


@pytest.fixture(scope="session")
def trainer(controllers: Controllers) -> Process:
    """The controller of Kubeflow Trainer v2, and that of JobSet, which it needs."""
    return controllers.start("trainer")


@pytest.fixture(scope="session")
def karpenter(controllers: Controllers) -> Process:
    """Karpenter; a test creates its node pools, and `karpenter.py` plays the kubelets."""
    return controllers.start("karpenter")


@pytest.fixture(scope="session")
def kubectl(plane: Plane, find_parts: FindParts) -> Kubectl:
    """kubectl for an administrator of `plane`."""
    return Kubectl(find_parts(["kubectl"])["kubectl"].path, plane.kubeconfig)


@pytest.fixture
def namespace(kubectl: Kubectl) -> Iterator[str]:
    """A fresh namespace of `plane` in which pods can be created."""
    name = f"test-{uuid.uuid4().hex[:12]}"
    kubectl("create", "namespace", name)
    kubectl("wait", "-n", name, "--for=create", "serviceaccount/default", "--timeout=60s")
    yield name
    kubectl("delete", "namespace", name, "--wait=false")


@pytest.fixture
def windlass(plane: Plane, made: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Shell:
    monkeypatch.setenv("COLUMNS", "80")
    return shell(made, plane.kubeconfig, tmp_path)
