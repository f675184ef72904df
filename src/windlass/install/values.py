"""The values of the chart: one model behind values.yaml, its schema and its reference."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeAlias, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.alias_generators import to_camel
from pydantic_core import ErrorDetails

from windlass.config import Config
from windlass.model.errors import InputError, close_names

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=253)]
Replicas: TypeAlias = Annotated[int, Field(ge=1, le=9)]
Tree: TypeAlias = dict[str, Any]

CONTROLLERS = [
    "system:kube-controller-manager",
    *(
        f"system:serviceaccount:{namespace}:*"
        for namespace in (
            "kube-system",
            "jobset-system",
            "kubeflow",
            "kubeflow-system",
            "kuberay-system",
            "lws-system",
            "mpi-operator",
            "ray-system",
        )
    ),
]
"""The users that create pods on behalf of others. Only administrators can create accounts in these
namespaces, so nobody else can pass as one of them."""


class ValuesSection(BaseModel):
    """The base of all sections: camelCase names, as in Helm, and no unknown keys."""

    model_config = ConfigDict(
        strict=True,
        extra="forbid",
        frozen=True,
        alias_generator=to_camel,
        use_attribute_docstrings=True,
    )


class Image(ValuesSection):
    """The container image of both programs."""

    repository: Text = "windlass"
    """The repository of the image; build it with deploy/Containerfile."""
    tag: str = ""
    """The tag of the image; empty: the version of the chart."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] = "IfNotPresent"
    """The policy by which nodes pull the image."""
    pull_secrets: list[dict[str, str]] = []
    """Secrets to pull the image with, such as [{name: regcred}]."""


class DashboardValues(ValuesSection):
    """The web dashboard: who has the GPUs and why a job waits. Viewers see what they may list."""

    enabled: bool = True
    """Serve the dashboard, and create a Service for it."""


class DcgmValues(ValuesSection):
    """Metrics of the nodes' DCGM exporters: broken GPUs are avoided, busy ones are shown."""

    enabled: bool = True
    """Let the scheduler read the exporters."""
    port: Annotated[int, Field(ge=1, le=65_535)] = 9400
    """The port of the exporters, for the network policy."""


class Webhook(ValuesSection):
    """Sets schedulerName and queue, and records the creator of a pod, in managed namespaces."""

    enabled: bool = True
    """Run the webhook."""
    replicas: Replicas = 2
    """The number of webhook pods."""
    timeout_seconds: Annotated[int, Field(ge=1, le=30)] = 3
    """Seconds that the API server waits for an answer; then the pod is created unchanged."""
    controllers: list[Text] = CONTROLLERS
    """Users that create pods on behalf of others: the creator of such a pod is the creator of its
    owner. A name may end in a star."""
    resources: Tree = {
        "requests": {"cpu": "50m", "memory": "128Mi"},
        "limits": {"memory": "512Mi"},
    }
    """Resources of each webhook pod."""


class PolicyValues(ValuesSection):
    """Admission policies that keep GPU pods from bypassing the queues."""

    enabled: bool = True
    """Refuse, in managed namespaces, GPU pods of other schedulers and forged creators."""
    gpu_resources: list[Text] = ["nvidia.com/*", "amd.com/gpu", "gpu.intel.com/*"]
    """Resources that make a pod a GPU pod. A name may end in a star."""


class NetworkPolicy(ValuesSection):
    """Network policies of the pods of Windlass."""

    enabled: bool = True
    """Allow only the connections that are needed."""
    metrics_from: list[Tree] = []
    """Peers that may read the metrics, as in a NetworkPolicy; empty: all."""
    dashboard_from: list[Tree] = []
    """Peers that may reach the dashboard; empty: all."""
    egress: list[Tree] = [
        {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]},
        {"ports": [{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]},
    ]
    """Allowed outgoing connections: DNS, and the API server on its usual ports."""


class ServiceMonitor(ValuesSection):
    """A ServiceMonitor, for clusters with the Prometheus Operator."""

    enabled: bool = False
    """Let Prometheus scrape the metrics."""
    labels: dict[str, str] = {}
    """Further labels, by which your Prometheus selects its monitors."""
    interval: Text = "30s"
    """The scrape interval."""


class Rbac(ValuesSection):
    """Rights of the scheduler."""

    extra_rules: list[Tree] = []
    """Further rules for the scheduler, such as to list and watch job kinds that you added."""


class Crds(ValuesSection):
    """Definitions of custom resources."""

    install: bool = True
    """Install and upgrade the definitions of Queue, Topology, Policy and Gang."""


class HistoryValues(ValuesSection):
    """The history of decisions, for `windlass replay`."""

    enabled: bool = False
    """Record every cycle."""
    secret: str = ""
    """A Secret whose key `url` holds the URL of a PostgreSQL database; several replicas need one.
    Empty: an SQLite file."""
    port: Annotated[int, Field(ge=1, le=65_535)] = 5432
    """The port of the PostgreSQL database, for the network policy."""
    volume: Tree = {"emptyDir": {}}
    """The volume of the pod for the SQLite file."""


NO_DATABASE = (
    "history is on with several replicas, which cannot share a file: name a Secret with the URL of "
    "a PostgreSQL in history.secret, or set replicas to 1"
)
IN_CONFIG = (
    "a URL may hold a password and does not belong into config.history.url, which everybody can "
    "read; put it into a Secret and name that in history.secret"
)


class Values(ValuesSection):
    """All values of the chart."""

    image: Image = Image()
    replicas: Replicas = 2
    """The number of scheduler pods; one of them leads."""
    config: Config = Config(scheduler_names=["windlass"])
    """The configuration of the daemon, as in its own reference. Ports, Lease and snapshot folder
    are set by the chart."""
    resources: Tree = {
        "requests": {"cpu": "500m", "memory": "512Mi"},
        "limits": {"memory": "2Gi"},
    }
    """Resources of each scheduler pod."""
    priority_class_name: str = "system-cluster-critical"
    """The priority class of all pods of Windlass: they must not wait for pods that they
    schedule."""
    node_selector: dict[str, str] = {}
    """Labels of the nodes on which the pods of Windlass run."""
    tolerations: list[Tree] = []
    """Tolerations of the pods of Windlass."""
    dashboard: DashboardValues = DashboardValues()
    dcgm: DcgmValues = DcgmValues()
    webhook: Webhook = Webhook()
    policy: PolicyValues = PolicyValues()
    network_policy: NetworkPolicy = NetworkPolicy()
    service_monitor: ServiceMonitor = ServiceMonitor()
    rbac: Rbac = Rbac()
    crds: Crds = Crds()
    history: HistoryValues = HistoryValues()

    @model_validator(mode="after")
    def _check_history(self) -> Values:
        if self.history.enabled and self.replicas > 1 and not self.history.secret:
            raise ValueError(NO_DATABASE)
        if self.config.history.url:
            raise ValueError(IN_CONFIG)
        return self


def read_values(files: Sequence[str] = (), pairs: Sequence[str] = ()) -> Tree:
    """Return the values of an installation with the defaults, merged as Helm does it."""
    return merged(defaults(), overrides(files, pairs))


def overrides(files: Sequence[str] = (), pairs: Sequence[str] = ()) -> Tree:
    """Return the values that files and `key=value` pairs set; later ones override earlier ones.

    A null removes the default. Raises `InputError` if the values cannot be used.
    """
    choices: Tree = {}
    for file in files:
        choices = _overlay(choices, _loaded(file))
    for pair in pairs:
        choices = _overlay(choices, _pair(pair))
    choices.pop("global", None)  # Helm passes that to every chart
    _refuse_missing_sections(choices)
    try:
        Values.model_validate(merged(defaults(), choices))
    except ValidationError as error:
        problems = error.errors(include_url=False)
        raise InputError("values", None, _complaint(problems[0]), len(problems) - 1) from None
    return choices


def defaults() -> Tree:
    """Return the default values."""
    made = Values().model_dump(by_alias=True, mode="json", exclude={"config"})
    config = {"config": Values().config.model_dump(mode="json", exclude_unset=True)}
    return {name: (made | config)[name] for name in _names(Values)}


def merged(under: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Return two trees merged: `over` wins, mappings are merged, a null removes the key."""
    tree: Tree = dict(under)
    for key, value in over.items():
        below = tree.get(key)
        if value is None:
            tree.pop(key, None)
        elif isinstance(value, dict) and isinstance(below, dict):
            tree[key] = merged(cast(Tree, below), cast(Tree, value))
        else:
            tree[key] = value
    return tree


def _overlay(under: Mapping[str, Any], over: Mapping[str, Any]) -> Tree:
    """Return two trees merged like `merged`, but keep each null: it removes a default later."""
    tree: Tree = dict(under)
    for key, value in over.items():
        below = tree.get(key)
        if isinstance(value, dict) and isinstance(below, dict):
            tree[key] = _overlay(cast(Tree, below), cast(Tree, value))
        else:
            tree[key] = value
    return tree


def files() -> dict[str, str]:
    """Return the files of the chart that are generated from this model, by name."""
    return {"values.yaml": _values_yaml(), "values.schema.json": _schema()}


def keys(section: type[BaseModel] = Values, above: str = "") -> Iterator[tuple[str, Any, str]]:
    """Yield every key with its default and its description, for the reference."""
    for name, field in section.model_fields.items():
        key = above + (field.alias or name)
        if isinstance(field.default, ValuesSection):
            yield from keys(type(field.default), f"{key}.")
        else:
            default = field.default
            if isinstance(default, Config):
                default = default.model_dump(mode="json", exclude_unset=True)
            yield key, default, " ".join((field.description or "").split())


def _refuse_missing_sections(choices: Tree) -> None:
    """Raise `InputError` if a null removes a whole section: the templates read each of them."""
    for name, field in Values.model_fields.items():
        key = field.alias or name
        if isinstance(field.default, BaseModel) and choices.get(key, field.default) is None:
            sentence = f"{key}: expected a mapping, found null; leave it out for its defaults"
            raise InputError("values", None, sentence)


def _names(section: type[BaseModel]) -> list[str]:
    return [field.alias or name for name, field in section.model_fields.items()]


def _loaded(file: str) -> Tree:
    try:
        with open(file, encoding="utf-8") as stream:
            content: Any = yaml.safe_load(stream) or {}
    except (OSError, ValueError, yaml.YAMLError) as error:
        why = getattr(error, "strerror", None) or getattr(error, "problem", None) or error
        raise InputError(file, None, f"it cannot be read ({why}); check it") from None
    if not isinstance(content, dict):
        raise InputError(file, None, "it holds no mapping; write lines like replicas: 2")
    return cast(Tree, content)


def _complaint(error: ErrorDetails) -> str:
    path = ".".join(str(step) for step in error["loc"])
    if error["type"] == "extra_forbidden":
        close = close_names(path, (key for key, _, _ in keys()))
        hint = f'did you mean "{close[0]}"?' if close else "docs/reference/values.md lists all"
        return f'the key "{path}" is not known; {hint}'
    if error["type"] == "value_error":
        return f"{path}{': ' if path else ''}{error.get('ctx', {})['error']}"
    expected = error["msg"].removeprefix("Input should be ")
    return f'{path}: expected {expected}, found "{str(error["input"])[:40]}"; correct it'


def _pair(pair: str) -> Tree:
    key, sign, text = pair.partition("=")
    if not sign or not key:
        raise InputError("--set", None, f'found "{pair}"; write key=value, as webhook.replicas=1')
    try:
        value: Any = yaml.safe_load(text) if text else ""
    except yaml.YAMLError:
        raise InputError("--set", None, f'the value in "{pair}" is not YAML; quote it') from None
    for step in reversed(key.split(".")):
        value = {step: value}
    return value


def _values_yaml() -> str:
    head = "# Written by `windlass install --chart`: the defaults, from the model of the values.\n"
    return head + "".join(_commented(Values, defaults(), ""))


def _commented(section: type[BaseModel], values: Tree, indent: str) -> Iterator[str]:
    for name, field in section.model_fields.items():
        key = field.alias or name
        inner = field.default if isinstance(field.default, ValuesSection) else None
        about = type(inner).__doc__ if inner else field.description
        yield f"\n{indent}# {' '.join((about or '').split())}\n"
        if inner:
            yield f"{indent}{key}:"
            yield from _commented(type(inner), values[key], indent + "  ")
        else:
            text = yaml.safe_dump({key: values[key]}, sort_keys=False, width=100)
            yield "".join(f"{indent}{line}\n" for line in text.splitlines())


_SEVERAL_RECORD: Tree = {
    "required": ["history", "replicas"],
    "properties": {
        "replicas": {"minimum": 2},
        "history": {"required": ["enabled"], "properties": {"enabled": {"const": True}}},
    },
}
_A_SECRET_IS_NAMED: Tree = {
    "properties": {"history": {"required": ["secret"], "properties": {"secret": {"minLength": 1}}}}
}


def _schema() -> str:
    schema = Values.model_json_schema(by_alias=True)
    schema["properties"]["global"] = {"type": "object"}
    schema |= {"if": _SEVERAL_RECORD, "then": _A_SECRET_IS_NAMED}
    return (
        json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", **schema}, indent=2)
        + "\n"
    )
