"""Real controllers of other projects, as processes against a control plane of the tests.

    with running_controllers(plane, find_parts) as controllers:
        controllers.start("jobset")   # ready: its webhooks answer
        controllers.process("jobset").stop()

Each comes from the cache of the lab with its own custom resource definitions and webhook
configurations. The API server reaches its webhooks on loopback, with certificates made here.
"""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from tests.live.support.karpenter import instance_types
from tests.live.support.kubectl import Kubectl
from tests.live.support.waiting import wait_until
from windlass.certificates import Authority
from windlass_lab.control_plane.binaries import ProgramBinary
from windlass_lab.control_plane.plane import Plane
from windlass_lab.control_plane.ports import PortPool
from windlass_lab.control_plane.process import Keeper, Process
from windlass_lab.control_plane.readiness import is_ready

Json = dict[str, Any]
FindParts = Callable[[Sequence[str]], dict[str, ProgramBinary]]
CERTIFICATES = Path("k8s-webhook-server/serving-certs")
"""Where controllers look for their certificate, in the folder that TMPDIR names."""
CONDITIONS = "custom-columns=TYPE:.status.conditions[*].type,STATUS:.status.conditions[*].status"


@dataclass(frozen=True, slots=True)
class Setup:
    """What the configuration file of a controller with webhooks says, and what it serves."""

    config: str
    """The API version of the configuration file."""
    certificates: str
    """The setting that makes the controller create certificates itself; it is turned off."""
    api_version: str
    kind: str
    """A kind whose objects one of its webhooks changes when they are created."""
    names_certificate_folder: bool = True
    """Whether the file can say where the certificate is; else it must be in TMPDIR."""
    needs: tuple[str, ...] = ()
    """Controllers that must run before it."""


SETUPS = {
    "jobset": Setup(
        config="config.jobset.x-k8s.io/v1alpha1",
        certificates="internalCertManagement",
        api_version="jobset.x-k8s.io/v1alpha2",
        kind="JobSet",
    ),
    "lws": Setup(
        config="config.lws.x-k8s.io/v1alpha1",
        certificates="internalCertManagement",
        api_version="leaderworkerset.x-k8s.io/v1",
        kind="LeaderWorkerSet",
    ),
    "trainer": Setup(
        config="config.trainer.kubeflow.org/v1alpha1",
        certificates="certManagement",
        api_version="trainer.kubeflow.org/v1alpha1",
        kind="TrainJob",
        names_certificate_folder=False,
        needs=("jobset",),
    ),
}


@contextmanager
def running_controllers(plane: Plane, find_parts: FindParts) -> Iterator[Controllers]:
    """Yield controllers of this plane, none of them started; all end at the end."""
    kubectl = Kubectl(find_parts(["kubectl"])["kubectl"].path, plane.kubeconfig)
    controllers = Controllers(plane, kubectl, find_parts)
    try:
        yield controllers
    finally:
        controllers.close()


@dataclass(slots=True)
class Controllers:
    """The controllers that run against one control plane."""

    plane: Plane
    kubectl: Kubectl
    """With an administrator's access to the plane."""
    find_parts: FindParts
    _processes: dict[str, Process] = field(default_factory=dict[str, Process])
    _ports: PortPool = field(default_factory=PortPool)
    _keeper: Keeper = field(default_factory=lambda: Keeper(None))
    _authority: Authority = field(default_factory=lambda: Authority.make("windlass-tests"))

    def start(self, name: str) -> Process:
        """Start a controller, and those it needs, unless they run; return when it is ready."""
        if name not in self._processes:
            for needed in SETUPS[name].needs if name in SETUPS else ():
                self.start(needed)
            part = self.find_parts([name])[name]
            self._define_kinds(part)
            if name in SETUPS:
                self._start_with_webhooks(part, SETUPS[name])
            else:
                self._start_karpenter(part)
        return self._processes[name]

    def process(self, name: str) -> Process:
        """The process of a controller that was started; a test may pause, stop and start it."""
        return self._processes[name]

    def close(self) -> None:
        """End all of them, those that need others first."""
        for process in reversed(self._processes.values()):
            process.stop()
        self._keeper.close()
        self._ports.give_back()

    def _define_kinds(self, part: ProgramBinary) -> None:
        """Create the custom resource definitions, and wait until they are served."""
        files = [
            path
            for path in sorted(part.manifests.rglob("*.yaml"))
            if path.parent.name in {"bases", "crds"} and path.name != "kustomization.yaml"
        ]
        words = [word for path in files for word in ("-f", str(path))]
        names = self.kubectl("create", "--validate=false", "-o", "name", *words).split()

        def are_served() -> bool:
            rows = self.kubectl("get", *names, "--no-headers", "-o", CONDITIONS).splitlines()
            return all("Established" in row and "False" not in row for row in rows)

        wait_until(are_served)

    def _start_with_webhooks(self, part: ProgramBinary, setup: Setup) -> None:
        port, health = self._ports.claim(), self._ports.claim()
        folder = self._folder(part.name)
        certificates = folder / CERTIFICATES
        certificates.mkdir(parents=True)
        self._authority.serving(["127.0.0.1"]).write(certificates, "tls")
        where = {"certDir": str(certificates)} if setup.names_certificate_folder else {}
        config = {
            "apiVersion": setup.config,
            "kind": "Configuration",
            "leaderElection": {"leaderElect": False},
            setup.certificates: {"enable": False},
            "webhook": {"port": port, "host": "127.0.0.1", **where},
            "metrics": {"bindAddress": "0"},
            "health": {"healthProbeBindAddress": f"127.0.0.1:{health}"},
        }
        (folder / "config.yaml").write_text(json.dumps(config))
        paths = self._configure_webhooks(part, setup, f"https://127.0.0.1:{port}")
        self._launch(part, ["--config", str(folder / "config.yaml")])
        self._wait_ready(part.name, f"http://127.0.0.1:{health}", ["/readyz"], None)
        trust = ssl.create_default_context(cadata=self._authority.certificate.decode())
        self._wait_ready(part.name, f"https://127.0.0.1:{port}", paths, trust)

    def _configure_webhooks(self, part: ProgramBinary, setup: Setup, url: str) -> list[str]:
        """Make the API server call the webhooks at this address; return their paths.

        Nobody listens there yet, so a creation that fails shows that the API server has read the
        configuration. Without this wait a first object could pass unchanged.
        """
        source = next(path.parent for path in part.manifests.rglob("webhook/kustomization.yaml"))
        found = yaml.safe_load_all(self.kubectl("kustomize", str(source)))
        configurations = [each for each in found if each["kind"].endswith("WebhookConfiguration")]
        paths: list[str] = []
        for configuration in configurations:
            configuration["metadata"]["name"] = f"{part.name}-{configuration['kind'].lower()}"
            for webhook in configuration["webhooks"]:
                paths.append(webhook["clientConfig"]["service"]["path"])
                bundle = b64encode(self._authority.certificate).decode()
                webhook["clientConfig"] = {"url": url + paths[-1], "caBundle": bundle}
        self.kubectl("create", "--validate=false", "-f", "-", given=_list(configurations))
        wait_until(lambda: "failed calling webhook" in self._try_to_create(setup))
        return paths

    def _try_to_create(self, setup: Setup) -> str:
        """Create an empty object of the kind as a dry run; return what kubectl says."""
        metadata = {"name": "nobody", "namespace": "default"}
        body = {"apiVersion": setup.api_version, "kind": setup.kind, "metadata": metadata}
        words = ("create", "--dry-run=server", "--validate=false", "-f", "-")
        return self.kubectl.attempt(*words, given=body)

    def _start_karpenter(self, part: ProgramBinary) -> None:
        """Start Karpenter with KWOK, which makes Node objects; somebody else plays the kubelets."""
        health = self._ports.claim()
        folder = self._folder(part.name)
        (folder / "instance-types.json").write_text(json.dumps(instance_types()))
        words = {
            "disable-leader-election": "true",
            "health-probe-port": str(health),
            "instance-types-file-path": str(folder / "instance-types.json"),
            "metrics-port": str(self._ports.claim()),
        }
        self._launch(part, [f"--{key}={value}" for key, value in words.items()])
        self._wait_ready(part.name, f"http://127.0.0.1:{health}", ["/readyz"], None)

    def _launch(self, part: ProgramBinary, words: Sequence[str]) -> None:
        folder = self._folder(part.name)
        variables = {"KUBECONFIG": str(self.plane.kubeconfig), "TMPDIR": str(folder)}
        log = folder / f"{part.name}.log"
        process = Process(part.name, [str(part.path), *words], log, self._keeper, variables)
        self._processes[part.name] = process
        process.start()

    def _wait_ready(
        self, name: str, url: str, paths: Sequence[str], trust: ssl.SSLContext | None
    ) -> None:
        """Wait until the controller answers all these paths."""

        def answers() -> bool:
            self._processes[name].check()
            return all(is_ready(url, path, trust) for path in paths)

        wait_until(answers)

    def _folder(self, name: str) -> Path:
        folder = self.plane.folder / "controllers" / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder


def _list(items: list[Json]) -> Json:
    return {"apiVersion": "v1", "kind": "List", "items": items}
