"""`windlass webhook`: the admission webhook on a cluster, with certificates of its own.

    Secret --certificates--> caBundle of the webhook's configuration --> served with from then on

The order matters: the API server must trust the authority before a certificate of it is used. Every
replica checks the certificates periodically. A replica that finds them missing or old writes new
ones; a conflict means that another replica was faster, and its certificates are read.
"""

from __future__ import annotations

import asyncio
import signal
import tempfile
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import uvicorn

from windlass.admission import certificates
from windlass.admission.certificates import WebhookCertificates
from windlass.admission.review import Rules
from windlass.admission.server import AdmissionHandler, application
from windlass.config import Config
from windlass.crds.definitions import QUEUE
from windlass.crds.queue_access import Namespace, QueueAccess, QueueChoice
from windlass.crds.read import read_queue
from windlass.daemon.serving.health import Server
from windlass.daemon.serving.log import StructuredLog
from windlass.kube.client import Api, ApiError, Conflict, Patch, Watch, connect, load
from windlass.workloads.objects import wire

AT_FIRST_S = 1.0
"""The pause between attempts to get the first certificates."""
CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
HOOK = "workloads.windlass.dev"
"""The name of the one webhook in its configuration."""


@dataclass(frozen=True, slots=True)
class WebhookAddress:
    """The addresses of the webhook, and the Secret with its certificates."""

    name: str
    """The name of its MutatingWebhookConfiguration."""
    secret: str
    """The Secret, as namespace/name."""
    hosts: tuple[str, ...]
    """The host names and addresses under which the API server reaches it."""
    address: str = "0.0.0.0"
    port: int = 8443
    drain_s: float = 5.0
    """Seconds for which it goes on answering after a stop signal: the API server must learn first
    that it is no longer ready."""
    look_again_s: float = 60.0
    """The interval in seconds at which it checks its certificates."""


async def run(config: Config, place: WebhookAddress, controllers: tuple[str, ...]) -> None:
    """Serve the webhook until SIGTERM or SIGINT."""
    access = load(config.kubeconfig or None, config.context or None)
    with tempfile.TemporaryDirectory() as folder:
        async with connect(access) as api:
            await _Webhook(config, place, controllers, api, Path(folder)).run()


class _Webhook:
    """The webhook process: its watches, its handler and its certificates."""

    def __init__(
        self,
        config: Config,
        place: WebhookAddress,
        controllers: tuple[str, ...],
        api: Api,
        folder: Path,
    ) -> None:
        self._config, self._place, self._api, self._folder = config, place, api, folder
        self._log = StructuredLog(config.log.format, config.log.level)
        self._queues = Watch(api, QUEUE.path(), wire.Owner, chance=Random())
        self._namespaces = Watch(api, "/api/v1/namespaces", wire.Owner, chance=Random())
        self._doors = QueueAccess((), config.default_queue)
        self._stop = asyncio.Event()
        rules = Rules(config.scheduler_names[0], controllers)
        self._app = application(AdmissionHandler(rules, self._choose, self._find), self._trouble)

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop.set)
        async with asyncio.TaskGroup() as group:
            work = [
                group.create_task(self._queues.run(lambda _changes: self._open_doors())),
                group.create_task(self._namespaces.run(lambda _changes: None)),
                group.create_task(self._serve()),
            ]
            await self._stop.wait()
            self._log.line("stopping")
            await asyncio.wait(work[2:], timeout=self._place.drain_s)
            for task in work:
                task.cancel()

    # -- data for the handler

    def _open_doors(self) -> None:
        """Compute again which namespaces may use which queues, after a change of a queue."""
        objects = self._queues.items.values()
        results = (read_queue(thing.metadata.name, thing.spec) for thing in objects)
        queues = [result.value for result in results if result.value]
        self._doors = QueueAccess(queues, self._config.default_queue)

    def _choose(self, queue: str, namespace: str) -> QueueChoice | None:
        thing = self._namespaces.items.get(("", namespace))
        if thing is None or not self._queues.synced.is_set():
            return None
        return self._doors.choose(queue, Namespace(namespace, thing.metadata.labels or {}))

    async def _find(self, path: str) -> wire.ObjectMeta | None:
        try:
            return _owner.decode(await self._api.get(path)).metadata
        except (ApiError, msgspec.DecodeError):
            return None

    def _trouble(self) -> str:
        if self._stop.is_set():
            return "it is stopping"
        for kind, watch in (("queues", self._queues), ("namespaces", self._namespaces)):
            if watch.trouble is not None:
                return f"{kind} cannot be read: {watch.trouble.message}"
            if not watch.synced.is_set():
                return f"{kind} have not all been read yet"
        return ""

    # -- certificates

    async def _serve(self) -> None:
        """Serve as soon as there are certificates, and replace them without a restart."""
        using = await self._first_papers()
        files = using.serving.write(self._folder, "serving")
        config = uvicorn.Config(
            self._app,
            host=self._place.address,
            port=self._place.port,
            log_level="error",
            access_log=False,
            lifespan="off",
            ssl_certfile=str(files[0]),
            ssl_keyfile=str(files[1]),
        )
        async with asyncio.TaskGroup() as group:
            group.create_task(Server(config).serve())
            self._log.line("serves", hosts=",".join(self._place.hosts), port=self._place.port)
            while True:
                await asyncio.sleep(self._place.look_again_s)
                using = await self._look_after(config, using)

    async def _first_papers(self) -> WebhookCertificates:
        while True:
            try:
                return await self._papers()
            except ApiError as error:
                self._log.line("papers", level="warning", why=error.message)
                await asyncio.sleep(AT_FIRST_S)

    async def _look_after(
        self, config: uvicorn.Config, using: WebhookCertificates
    ) -> WebhookCertificates:
        """Check the certificates, and load them into the running server if they have changed.

        Return the certificates in use; a failure is logged, and the current ones stay.
        """
        try:
            papers = await self._papers()
        except ApiError as error:
            self._log.line("papers", level="warning", why=error.message)
            return using
        if papers.serving != using.serving and config.ssl is not None:
            config.ssl.load_cert_chain(*papers.serving.write(self._folder, "serving"))
            self._log.line("changed papers", until=papers.serving.ends_at)
        return papers

    async def _papers(self) -> WebhookCertificates:
        """Return the certificates to serve with; the API server trusts them from now on."""
        papers = await self._read_or_renew()
        await self._announce(papers.bundle)
        return papers

    async def _read_or_renew(self) -> WebhookCertificates:
        """Return the certificates in the Secret; write new ones if they are missing or old."""
        namespace, _, name = self._place.secret.partition("/")
        path = f"/api/v1/namespaces/{namespace}/secrets/{name}"
        while True:
            secret = msgspec.json.decode(await self._api.get(path))
            current = certificates.read(secret.get("data") or {})
            hosts = self._place.hosts
            new = (
                certificates.renewed(current, hosts, datetime.now(UTC))
                if current
                else certificates.make(hosts)
            )
            if new is None and current is not None:
                return current
            assert new is not None
            with suppress(Conflict):  # another replica was faster: read its certificates
                await self._api.put(path, {**secret, "data": certificates.written(new)})
                self._log.line("new papers", until=new.serving.ends_at)
                return new

    async def _announce(self, bundle: bytes) -> None:
        """Write the CA bundle into the webhook's configuration, unless it is there already."""
        path = f"{CONFIGURATIONS}/{self._place.name}"
        configuration = msgspec.json.decode(await self._api.get(path))
        if _bundle_in(configuration) != bundle:
            client_config = {"caBundle": b64encode(bundle).decode()}
            body = {"webhooks": [{"name": HOOK, "clientConfig": client_config}]}
            await self._api.patch(path, body, kind=Patch.STRATEGIC)
            self._log.line("announced its authority", configuration=self._place.name)


_owner = msgspec.json.Decoder(wire.Owner)


def _bundle_in(configuration: dict[str, Any]) -> bytes:
    hooks: list[dict[str, Any]] = configuration.get("webhooks") or []
    bundles: list[str] = [
        hook["clientConfig"].get("caBundle") for hook in hooks if hook["name"] == HOOK
    ]
    return b64decode("".join(bundle or "" for bundle in bundles))
