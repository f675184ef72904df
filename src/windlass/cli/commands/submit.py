"""`windlass submit`: run a command as a gang."""

from __future__ import annotations

import asyncio
import os
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from windlass.cli.options import in_namespace, namespace_or_own, reaching, settings

if TYPE_CHECKING:
    from windlass.config import Config
    from windlass.kube.client.client import Api
    from windlass.workloads.manifests.submit import SubmitRequest

NAME = re.compile(r"[a-z]([a-z0-9-]*[a-z0-9])?")
MOST_PODS = 100_000
PRIORITY_CLASSES = "/apis/scheduling.k8s.io/v1/priorityclasses"


@click.command("submit", context_settings={"allow_interspersed_args": False})
@click.argument("words", metavar="-- COMMAND...", nargs=-1, required=True)
@click.option("--image", required=True, help="The container image.")
@click.option("--name", help="Of the job; else made from the command.")
@click.option("--queue", default="", help="The queue; else the one for the namespace.")
@click.option(
    "--count", type=click.IntRange(1, MOST_PODS), default=1, show_default=True, help="Of pods."
)
@click.option("--gpus", type=click.IntRange(0, 64), default=1, show_default=True, help="Per pod.")
@click.option("--cpu", default="", metavar="AMOUNT", help="Per pod, like 16.")
@click.option("--memory", default="", metavar="AMOUNT", help="Per pod, like 128Gi.")
@click.option("--env", multiple=True, metavar="KEY=VALUE", help="A variable; may be repeated.")
@click.option("--duration", default="", metavar="TIME", help="How long it will run, like 2h30m.")
@click.option(
    "--max-run", default="", metavar="TIME", help="Then it saves, if it can, and ends, like 8h."
)
@click.option("--priority-class", default="", metavar="NAME", help="The PriorityClass.")
@click.option(
    "--retries",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="So many pods may fail before the job does; evictions do not count.",
)
@click.option("--print", "print_", is_flag=True, help="Print the manifests and submit nothing.")
@click.option("--json", "json_", is_flag=True, help="Print what was made as JSON.")
@in_namespace
@reaching
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

    With several pods, `torchrun` needs no arguments to find the others: PET_NNODES,
    PET_NODE_RANK, PET_NPROC_PER_NODE and PET_MASTER_ADDR are set, and MASTER_ADDR, MASTER_PORT,
    WORLD_SIZE and RANK for programs with one process per pod.
    """
    from windlass.workloads.manifests.submit import SubmitRequest

    config = settings(kubeconfig, context, file)
    order = SubmitRequest(
        name=name or _made_up(words),
        namespace=_namespace(config, namespace, print_),
        command=words,
        scheduler=config.scheduler_names[0],
        duration=duration,
        env=dict(_variable(each) for each in env),
        **wanted,
    )
    _check(order)
    if print_:
        click.echo(_as_yaml(order), nl=False)
        return
    asyncio.run(_submit(config, order))
    click.echo(_as_json(order) if json_ else _told(order))


def _made_up(words: tuple[str, ...]) -> str:
    """A name from the command, and something that tells it from the next one."""
    parts = [os.path.basename(word).partition(".")[0].lower() for word in words[:2]]
    plain = "-".join(part for part in parts if NAME.fullmatch(part))
    return f"{plain[:40].strip('-') or 'job'}-{os.urandom(3).hex()}"


def _namespace(config: Config, namespace: str | None, print_: bool) -> str:
    """To print manifests no cluster is needed."""
    from windlass.kube.client.errors import NoAccess

    try:
        return namespace_or_own(config, namespace)
    except NoAccess:
        if print_:
            return "default"
        raise


def _variable(text: str) -> tuple[str, str]:
    key, is_there, value = text.partition("=")
    if not key or not is_there:
        raise click.UsageError(f'--env: expected KEY=VALUE, found "{text}"')
    return key, value


def _check(order: SubmitRequest) -> None:
    """What the API server would accept, but nobody could use."""
    from windlass.model.units import parse_duration, parse_quantity
    from windlass.workloads.manifests.submit import longest_name

    most, name = longest_name(order.count), order.name
    if not NAME.fullmatch(name) or len(name) > most:
        wanted = f"a letter, then letters, digits and dashes, all small and at most {most}"
        raise click.UsageError(f'--name: expected {wanted}; found "{name}"')
    for option, text in (("--cpu", order.cpu), ("--memory", order.memory)):
        if text and not (parse_quantity(text) or 0) > 0:
            wanted = "an amount like 16 or 128Gi"
            raise click.UsageError(f'{option}: expected {wanted}; found "{text}"')
    for option, time in (("--duration", order.duration), ("--max-run", order.max_run)):
        if time and not parse_duration(time):
            wanted = "a time like 90s, 45m or 2h30m"
            raise click.UsageError(f'{option}: expected {wanted}; found "{time}"')


async def _submit(config: Config, order: SubmitRequest) -> None:
    """Both objects or none. The Job comes first: the Service belongs to it, and goes with it."""
    from windlass.crds.definitions import QUEUE
    from windlass.daemon.loop.read_cluster import opened
    from windlass.daemon.serving.leader_info import as_leader, read_lease
    from windlass.kube.client.errors import ApiError
    from windlass.workloads.manifests.submit import job_of, service_of

    jobs = f"/apis/batch/v1/namespaces/{order.namespace}/jobs"
    async with opened(config) as api:
        if order.queue:
            await _check_name(api, "queue", order.queue, QUEUE.path())
        if order.priority_class:
            await _check_name(api, "PriorityClass", order.priority_class, PRIORITY_CLASSES)
        leads = as_leader(config, await read_lease(api, config))
        order = replace(order, scheduler=leads.scheduler_names[0])
        made = await api.post(jobs, job_of(order))
        if (service := service_of(order)) is None:
            return
        service["metadata"]["ownerReferences"] = [_reference(made)]
        try:
            await api.post(f"/api/v1/namespaces/{order.namespace}/services", service)
        except ApiError:
            await api.delete(f"{jobs}/{order.name}", {"propagationPolicy": "Background"})
            raise


def _reference(made: bytes) -> dict[str, str]:
    import msgspec

    from windlass.workloads.objects.wire import Owner

    meta = msgspec.json.decode(made, type=Owner).metadata
    return {"apiVersion": "batch/v1", "kind": "Job", "name": meta.name, "uid": meta.uid}


async def _check_name(api: Api, what: str, name: str, path: str) -> None:
    """A name that nothing has is a slip of the pen; who may not read the names is not asked."""
    from windlass.kube.client.client import list_all
    from windlass.kube.client.errors import Forbidden
    from windlass.kube.client.errors import NotFound as NotServed
    from windlass.model.errors import UnknownName
    from windlass.workloads.objects.wire import Owner

    try:
        known = [each.metadata.name for each in await list_all(api, path, Owner)]
    except (Forbidden, NotServed):
        return
    if name not in known:
        raise UnknownName(what, name, known)


def _as_yaml(order: SubmitRequest) -> str:
    from windlass.crds.manifest import as_yaml
    from windlass.workloads.manifests.submit import job_of, service_of

    service = service_of(order)
    return "---\n".join(as_yaml(each) for each in (job_of(order), service) if each is not None)


def _as_json(order: SubmitRequest) -> str:
    from windlass.cli.output import as_json

    made = {"namespace": order.namespace, "name": order.name}
    return as_json(made | {"pods": order.count, "gpus": order.count * order.gpus})


def _told(order: SubmitRequest) -> str:
    where = f"{order.namespace}/{order.name}"
    pods = "1 pod" if order.count == 1 else f"{order.count} pods that start together, each"
    gpus = f"{order.gpus or 'no'} GPU{'' if order.gpus == 1 else 's'}"
    return f"Submitted {where}: {pods} with {gpus}.\n  windlass explain {where}"
