"""`windlass submit`: runs a command as a gang."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.format import counted
from windlass.cli.options import (
    cluster_options,
    load_config,
    namespace_option,
    namespace_or_default,
)

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.kube.client import Api
    from windlass.workloads.manifests import SubmitRequest

NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
MOST_PODS = 100_000
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@click.command("submit", context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="-- COMMAND...", nargs=-1, required=True)
@click.option("--image", required=True, help="The container image.")
@click.option("--name", help="The name of the job; by default it is made from the command.")
@click.option("--queue", default="", help="The queue; by default that of the namespace.")
@click.option(
    "--count",
    type=click.IntRange(1, MOST_PODS),
    default=1,
    show_default=True,
    help="The number of pods.",
)
@click.option(
    "--gpus", type=click.IntRange(0, 64), default=1, show_default=True, help="GPUs per pod."
)
@click.option("--cpu", default="", metavar="AMOUNT", help="CPUs per pod, like 16.")
@click.option("--memory", default="", metavar="AMOUNT", help="Memory per pod, like 128Gi.")
@click.option(
    "--env", multiple=True, metavar="KEY=VALUE", help="An environment variable; may be repeated."
)
@click.option("--duration", default="", metavar="TIME", help="The expected run time, like 2h30m.")
@click.option(
    "--max-run",
    default="",
    metavar="TIME",
    help="The longest run time, like 8h; then the job saves its work, if it can, and ends.",
)
@click.option("--priority-class", default="", metavar="NAME", help="The PriorityClass.")
@click.option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="The number of pods that may fail before the job does; evictions do not count.",
)
@click.option("--print", "print_", is_flag=True, help="Print the manifests and submit nothing.")
@click.option("--json", "json_", is_flag=True, help="Print what was created as JSON.")
@namespace_option
@cluster_options
def command(
    *,
    words: tuple[str, ...],
    name: str | None,
    env: tuple[str, ...],
    duration: str,
    print_: bool,
    json_: bool,
    namespace: str | None,
    kubeconfig: str | None,
    context: str | None,
    file: str | None,
    **wanted: Any,
) -> None:
    """Run a command in COUNT pods that start together or not at all.

    \b
    windlass submit --image train:1 --count 4 --gpus 8 -- torchrun train.py

    With several pods, `torchrun` needs no arguments to find the other pods: PET_NNODES,
    PET_NODE_RANK, PET_NPROC_PER_NODE and PET_MASTER_ADDR are set, and MASTER_ADDR, MASTER_PORT,
    WORLD_SIZE and RANK for programs with one process per pod.
    """
    from windlass.workloads.manifests import SubmitRequest

    config = load_config(kubeconfig, context, file)
    request = SubmitRequest(
        name=name or _generated_name(words),
        namespace=_namespace(config, namespace, print_),
        command=words,
        scheduler=config.scheduler_names[0],
        duration=duration,
        env=dict(_variable(text) for text in env),
        **wanted,
    )
    _check(request)
    if print_:
        click.echo(_as_yaml(request), nl=False)
        return
    asyncio.run(_submit(config, request))
    click.echo(_as_json(request) if json_ else _confirmation(request))


def _generated_name(words: tuple[str, ...]) -> str:
    """Return a name made from the command, with a random part that makes it unique."""
    parts = [os.path.basename(word).partition(".")[0].lower() for word in words[:2]]
    plain = "-".join(part for part in parts if NAME.fullmatch(part))
    return f"{plain[:40].strip('-') or 'job'}-{os.urandom(3).hex()}"


def _namespace(config: Config, namespace: str | None, print_: bool) -> str:
    """Return the namespace of the job; "default" if manifests are printed without a cluster."""
    from windlass.kube.client import NoAccess

    try:
        return namespace_or_default(config, namespace)
    except NoAccess:
        if print_:
            return "default"
        raise


def _variable(text: str) -> tuple[str, str]:
    key, separator, value = text.partition("=")
    if not key or not separator:
        raise click.UsageError(f'--env: expected KEY=VALUE, found "{text}".')
    return key, value


def _check(request: SubmitRequest) -> None:
    """Refuse values that the API server would accept, but with which the job could not run."""
    from windlass.model.units import parse_duration, parse_quantity
    from windlass.workloads.manifests import longest_name

    most, name = longest_name(request.count), request.name
    if not NAME.fullmatch(name) or len(name) > most:
        expected = f"at most {most} small letters, digits and dashes, with a letter first"
        raise click.UsageError(f'--name: expected {expected}; found "{name}".')
    for option, text in (("--cpu", request.cpu), ("--memory", request.memory)):
        if text and not (parse_quantity(text) or 0) > 0:
            raise click.UsageError(
                f'{option}: expected an amount like 16 or 128Gi; found "{text}".'
            )
    for option, time in (("--duration", request.duration), ("--max-run", request.max_run)):
        if time and not parse_duration(time):
            raise click.UsageError(
                f'{option}: expected a time like 90s, 45m or 2h30m; found "{time}".'
            )


async def _submit(config: Config, request: SubmitRequest) -> None:
    """Create the Job and its Service, or neither.

    The Job is created first, because the Service names it as its owner and is deleted with it.
    """
    from windlass.crds.definitions import QUEUE
    from windlass.daemon.loop import open_api
    from windlass.daemon.serving import as_leader, read_lease
    from windlass.kube.client import ApiError
    from windlass.workloads.manifests import job_of, service_of

    jobs = f"/apis/batch/v1/namespaces/{request.namespace}/jobs"
    async with open_api(config) as api:
        if request.queue:
            await _check_name(api, "queue", request.queue, QUEUE.path())
        if request.priority_class:
            await _check_name(api, "PriorityClass", request.priority_class, PRIORITY_CLASSES)
        settings = as_leader(config, await read_lease(api, config))
        request = replace(request, scheduler=settings.scheduler_names[0])
        created = await api.post(jobs, job_of(request))
        if (service := service_of(request)) is None:
            return
        service["metadata"]["ownerReferences"] = [_owner_reference(created)]
        try:
            await api.post(f"/api/v1/namespaces/{request.namespace}/services", service)
        except ApiError:
            await api.delete(f"{jobs}/{request.name}", {"propagationPolicy": "Background"})
            raise


def _owner_reference(job: bytes) -> dict[str, str]:
    """Return the owner reference to a Job, given the answer of the API server to its creation."""
    import msgspec

    from windlass.workloads.objects import Owner

    meta = msgspec.json.decode(job, type=Owner).metadata
    return {"apiVersion": "batch/v1", "kind": "Job", "name": meta.name, "uid": meta.uid}


async def _check_name(api: Api, kind: str, name: str, path: str) -> None:
    """Refuse a name that does not exist; do nothing if the names may not be listed."""
    from windlass.kube.client import Forbidden, list_all
    from windlass.kube.client import NotFound as NotServed
    from windlass.model.errors import UnknownName
    from windlass.workloads.objects import Owner

    try:
        names = [found.metadata.name for found in await list_all(api, path, Owner)]
    except (Forbidden, NotServed):
        return
    if name not in names:
        raise UnknownName(kind, name, names)


def _as_yaml(request: SubmitRequest) -> str:
    from windlass.crds.manifest import as_yaml
    from windlass.workloads.manifests import job_of, service_of

    manifests = (job_of(request), service_of(request))
    return "---\n".join(as_yaml(manifest) for manifest in manifests if manifest is not None)


def _as_json(request: SubmitRequest) -> str:
    from windlass.cli.output import as_json

    job = {"namespace": request.namespace, "name": request.name}
    return as_json(job | {"pods": request.count, "gpus": request.count * request.gpus})


def _confirmation(request: SubmitRequest) -> str:
    name = f"{request.namespace}/{request.name}"
    pods = "1 pod" if request.count == 1 else f"{request.count} pods that start together, each"
    gpus = counted(request.gpus, "GPU") if request.gpus else "no GPUs"
    return f"Submitted {name}: {pods} with {gpus}.\n  windlass explain {name}"
