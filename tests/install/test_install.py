"""The Helm chart, its values, and `windlass install`, as far as they need no cluster."""

from __future__ import annotations

import asyncio
import json
import re
from functools import cache
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from tests.support.checkout import ROOT
from tests.support.rendered_chart import render, usable_helm
from windlass import __version__
from windlass.admission.creators import CREATOR_KINDS
from windlass.cli.commands.install import install, uninstall
from windlass.daemon.loop.watches import NEEDED, OWNERS
from windlass.daemon.serving.webhook import HOOK
from windlass.install.chart import (
    CLUSTER_KINDS,
    DEFINITION,
    NAMESPACE_KINDS,
    Release,
    chart_files,
    definitions,
    folder,
    scheduler_rules,
)
from windlass.install.helm_program import (
    HelmMissing,
    HelmRefusal,
    find_helm,
    program_cache,
)
from windlass.install.values import defaults, files, keys, merged, overrides, read_values
from windlass.model.errors import InputError
from windlass.workloads.kinds.table import KINDS
from windlass_lab.control_plane.binaries import cache_folder

EVERYTHING = {
    "serviceMonitor": {"enabled": True, "labels": {"a": "b"}},
    "rbac": {"extraRules": [{"apiGroups": ["a"], "resources": ["b"], "verbs": ["list"]}]},
    "history": {"enabled": True, "secret": "mine"},
}


@cache
def made(*pairs: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of an installation by kind and name."""
    objects = render(overrides(pairs=pairs))
    return {(thing["kind"], thing["metadata"]["name"]): thing for thing in objects}


def granted(role: dict[str, Any], *verbs: str) -> set[tuple[str, str]]:
    """The groups and resources for which a role allows all of these."""
    return {
        (group, resource)
        for rule in role["rules"]
        if set(verbs) <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


# --- the chart ---


def test_the_chart_in_the_repository_is_the_one_that_this_version_makes():
    there = {
        str(path.relative_to(folder())): path.read_text()
        for path in folder().rglob("*")
        if path.is_file()
    }
    assert there == chart_files(), "run: windlass install --chart deploy/chart"


def test_the_chart_has_the_version_of_the_program():
    chart = yaml.safe_load((folder() / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_every_object_can_be_told_to_belong_to_its_release():
    for thing in render(EVERYTHING, Release("mine", "there")):
        labels = thing["metadata"]["labels"]
        if thing["kind"] == DEFINITION:
            assert labels == {"app.kubernetes.io/name": "windlass"}  # all releases share it
            continue
        assert labels["app.kubernetes.io/name"] == "windlass"
        assert labels["app.kubernetes.io/instance"] == "mine"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert thing["metadata"].get("namespace", "there") == "there"


def test_an_uninstall_looks_for_exactly_the_kinds_that_the_chart_can_make():
    objects = [thing for thing in render(EVERYTHING) if thing["kind"] != DEFINITION]
    kinds = {True: set[tuple[str, str]](), False: set[tuple[str, str]]()}
    for thing in objects:
        kinds["namespace" in thing["metadata"]].add((thing["apiVersion"], thing["kind"]))
    assert kinds == {True: set(NAMESPACE_KINDS), False: set(CLUSTER_KINDS)}


def test_the_chart_holds_the_definitions_unless_they_are_not_wanted():
    def rendered(**values: Any) -> list[dict[str, Any]]:
        return [thing for thing in render(values) if thing["kind"] == DEFINITION]

    assert rendered() == definitions()
    assert rendered(crds={"install": False}) == []
    for definition in definitions():  # with a definition all its objects would go
        assert definition["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_what_is_switched_off_is_not_there():
    there = made("webhook.enabled=false", "policy.enabled=false")
    kinds = {kind for kind, _ in there}
    assert not kinds & {"MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"}
    assert ("Secret", "windlass-webhook") not in there
    assert "ServiceMonitor" not in kinds
    assert ("Service", "windlass-dashboard") in made()
    assert ("Service", "windlass-dashboard") not in made("dashboard.enabled=false")
    assert ("ServiceMonitor", "windlass-scheduler") in made("serviceMonitor.enabled=true")


def test_a_changed_configuration_makes_new_pods():
    def digest(*pairs: str) -> str:
        pods = made(*pairs)["Deployment", "windlass-scheduler"]["spec"]["template"]
        return pods["metadata"]["annotations"]["windlass.dev/config"]

    assert digest() == digest()
    assert digest() != digest("config.default_queue=everyone")


def test_the_pods_run_with_nothing_that_the_restricted_standard_forbids():
    for name in ("windlass-scheduler", "windlass-webhook"):
        pod = made()["Deployment", name]["spec"]["template"]["spec"]
        container = pod["containers"][0]["securityContext"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert container["readOnlyRootFilesystem"] is True
        assert container["capabilities"] == {"drop": ["ALL"]}


# --- history ---


def test_one_scheduler_may_keep_its_history_in_a_file_and_several_in_a_database():
    schema = json.loads(files()["values.schema.json"])
    for pairs in (
        ("history.enabled=true", "replicas=1"),
        ("history.enabled=true", "history.secret=mine"),
    ):
        jsonschema.validate(read_values(pairs=pairs), schema)
    assert "history" not in json.dumps(made()["Deployment", "windlass-scheduler"])


def test_the_file_lies_on_the_volume_and_the_url_comes_from_the_secret():
    def pod(*pairs: str) -> dict[str, Any]:
        found = made("history.enabled=true", *pairs)
        return found["Deployment", "windlass-scheduler"]["spec"]["template"]["spec"]

    def url(pod: dict[str, Any]) -> dict[str, Any]:
        (found,) = (e for e in pod["containers"][0]["env"] if e["name"] == "WINDLASS_HISTORY_URL")
        return found

    claim = {"persistentVolumeClaim": {"claimName": "past"}}
    in_file = pod("replicas=1", f"history.volume={json.dumps(claim | {'emptyDir': None})}")
    assert url(in_file)["value"] == "sqlite:////var/lib/windlass/history.db"
    assert {"name": "history", **claim} in in_file["volumes"]
    assert {"name": "history", "mountPath": "/var/lib/windlass"} in in_file["containers"][0][
        "volumeMounts"
    ]
    in_database = pod("history.secret=mine")
    assert url(in_database)["valueFrom"] == {"secretKeyRef": {"name": "mine", "key": "url"}}
    assert "history" not in {each["name"] for each in in_database["volumes"]}
    policies = made("history.enabled=true", "history.secret=mine", "history.port=6432")
    (rule,) = policies["NetworkPolicy", "windlass-history"]["spec"]["egress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 6432}]


def test_the_exporters_of_the_nodes_can_be_reached_if_they_are_asked():
    policies = made("dcgm.port=9500")
    (rule,) = policies["NetworkPolicy", "windlass-dcgm"]["spec"]["egress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 9500}]
    without = made("dcgm.enabled=false")
    assert ("NetworkPolicy", "windlass-dcgm") not in without
    (container,) = without["Deployment", "windlass-scheduler"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert {"name": "WINDLASS_DCGM_ENABLED", "value": "false"} in container["env"]


# --- rights ---


def test_the_rights_that_can_be_read_without_helm_are_those_that_are_granted():
    rules = scheduler_rules("windlass")
    assert made()["ClusterRole", "windlass-scheduler"]["rules"] == [
        *rules["cluster"],
        *rules["dashboard"],
    ]
    assert made()["Role", "windlass-scheduler"]["rules"] == rules["namespace"]
    without = made("dashboard.enabled=false")["ClusterRole", "windlass-scheduler"]
    assert without["rules"] == rules["cluster"]


def test_the_scheduler_may_read_exactly_what_it_watches():
    paths = [path for path, _ in NEEDED.values()] + list(OWNERS.values())
    watched = {re.fullmatch(r"/api(?:s/(.+))?/\w+/(\w+)", path) for path in paths}
    expected = {(found[1] or "", found[2]) for found in watched if found}
    assert len(expected) == len(set(paths))
    assert granted(made()["ClusterRole", "windlass-scheduler"], "list", "watch") == expected


def test_the_scheduler_may_change_exactly_the_owners_that_can_be_suspended():
    paths = [row.path for row in KINDS.values() if row.suspend]
    expected = {(path.split("/")[2], path.rpartition("/")[2]) for path in paths}
    role = made()["ClusterRole", "windlass-scheduler"]
    owners = {(path.split("/")[2], path.rpartition("/")[2]) for path in OWNERS.values()}
    assert granted(role, "patch") & owners == granted(role, "get") & owners == expected


def test_without_a_dashboard_nobody_is_asked_about_viewers():
    for pair, expected in (("dashboard.enabled=true", 2), ("dashboard.enabled=false", 0)):
        role = made(pair)["ClusterRole", "windlass-scheduler"]
        reviews = {(g, name) for g, name in granted(role, "create") if name.endswith("reviews")}
        assert len(reviews) == expected


def test_nobody_may_create_leases_or_secrets_or_touch_those_of_others():
    for role in ("windlass-scheduler", "windlass-webhook"):
        for rule in made()["Role", role]["rules"]:
            assert rule["resourceNames"]
            assert "create" not in rule["verbs"]


def test_the_webhook_is_asked_about_the_kinds_that_carry_a_creator_and_may_read_them():
    expected = {(group, plural) for (_, group), plural in CREATOR_KINDS.items()}
    hook = made()["MutatingWebhookConfiguration", "windlass"]["webhooks"][0]
    policy = made()["ValidatingAdmissionPolicy", "windlass-creator"]["spec"]["matchConstraints"]
    for rules in (hook["rules"], policy["resourceRules"]):
        asked = {(r["apiGroups"][0], name) for r in rules for name in r["resources"]}
        assert asked == expected
    role = made()["ClusterRole", "windlass-webhook"]
    others = {("admissionregistration.k8s.io", "mutatingwebhookconfigurations")}
    assert granted(role, "get") - others == expected
    assert hook["name"] == HOOK
    assert hook["failurePolicy"] == "Ignore"


def test_more_rights_can_be_given_for_kinds_of_jobs_that_were_added():
    rule = {"apiGroups": ["my.dev"], "resources": ["runs"], "verbs": ["list", "watch"]}
    objects = render({"rbac": {"extraRules": [rule]}})
    roles = {each["metadata"]["name"]: each for each in objects if each["kind"] == "ClusterRole"}
    assert roles["windlass-scheduler-extra"]["rules"] == [rule]


# --- values ---


def test_the_defaults_keep_the_schema():
    jsonschema.validate(defaults(), json.loads(files()["values.schema.json"]))
    assert yaml.safe_load(files()["values.yaml"]) == defaults()


@pytest.mark.parametrize(
    ("pair", "sentence"),
    [
        ("replica=2", 'the key "replica" is not known; did you mean "replicas"?'),
        ("replicas=0", 'replicas: expected greater than or equal to 1, found "0"; correct it'),
        (
            "image.pullPolicy=Often",
            "image.pullPolicy: expected 'Always', 'IfNotPresent' or 'Never'",
        ),
        ("config.portt=1", 'the key "config.portt" is not known'),
        ("replicas", 'found "replicas"; write key=value'),
        ("webhook=null", "webhook: expected a mapping, found null; leave it out"),
        ("history.enabled=true", "name a Secret with the URL of a PostgreSQL in history.secret"),
        ("config.history.url=postgresql://u:hunter2@h/d", "put it into a Secret and name that"),
    ],
)
def test_a_value_that_cannot_be_used_is_refused_in_one_sentence(pair: str, sentence: str):
    with pytest.raises(InputError) as told:
        read_values(pairs=[pair])
    assert sentence in str(told.value)
    assert "hunter2" not in str(told.value)
    assert "\n" not in str(told.value)


@pytest.mark.parametrize(
    "wrong",
    [{"replicas": 0}, {"typo": 1}, {"config": {"port": "x"}}, {"history": {"enabled": True}}],
    ids=str,
)
def test_helm_refuses_the_same_by_the_schema(wrong: dict[str, Any]):
    schema = json.loads(files()["values.schema.json"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(defaults(), wrong), schema)


def test_values_are_put_together_as_helm_does_it(tmp_path: Path):
    file = tmp_path / "values.yaml"
    file.write_text("webhook: {replicas: 3}\nresources: {limits: null}\ntolerations: [{key: a}]\n")
    found = read_values([str(file)], ["webhook.replicas=1", "config.namespaces=[a, b]"])
    assert found["webhook"]["replicas"] == 1
    assert found["webhook"]["enabled"] is True
    assert found["resources"] == {"requests": {"cpu": "500m", "memory": "512Mi"}}
    assert found["tolerations"] == [{"key": "a"}]
    assert found["config"] == {"scheduler_names": ["windlass"], "namespaces": ["a", "b"]}


def test_every_value_is_described_in_the_reference():
    page = (ROOT / "docs/reference/values.md").read_text()
    for key, default, meaning in keys():
        shown = f"`{json.dumps(default)}`" if default not in ("", [], {}) else "none"
        is_long = len(json.dumps(default)) > 60
        assert f"| `{key}` | {'see values.yaml' if is_long else shown} | {meaning} |" in page


# --- Helm ---


def test_the_programs_that_were_built_are_sought_where_they_are_built():
    assert cache_folder().parent == program_cache()
    assert cache_folder().match("controlplane-*")


def program(path: Path, version: str) -> Path:
    """A program that says it is this version of Helm."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Where Helm may lie: a folder in PATH, and one of programs that were built."""
    path, built = tmp_path / "bin", tmp_path / "cache" / "controlplane-v1.36.4"
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("WINDLASS_CACHE", str(built.parent))
    return path, built


def test_helm_is_taken_from_path_before_the_programs_that_were_built(places: tuple[Path, Path]):
    in_path, built = places
    second = program(built / "helm", "v3.22.0+gabc")
    assert find_helm().path == second
    first = program(in_path / "helm", "v4.0.1")
    assert (find_helm().path, find_helm().version) == (first, (4, 0, 1))
    program(first, "v3.17")
    assert (find_helm().path, find_helm().version) == (first, (3, 17))
    program(first, "v3.16.9")  # too old
    assert (find_helm().path, find_helm().version) == (second, (3, 22, 0))


def test_without_helm_one_sentence_says_what_was_sought_and_how_to_get_it(
    places: tuple[Path, Path],
):
    with pytest.raises(HelmMissing) as told:
        find_helm()
    assert str(told.value) == (
        "Helm 3.17 or newer is needed and was not found in PATH or below "
        f"{places[1].parent}; install it as helm.sh describes, or run `windlass cluster --build`, "
        "which builds it"
    )
    program(places[0] / "helm", "v3.16.9")
    program(places[1] / "helm", "nothing")
    with pytest.raises(HelmMissing, match=r"helm is 3\.16\.9, .*helm is no Helm that runs here"):
        find_helm()
    for command, words in ((install, ["--print"]), (install, ["--apply"]), (uninstall, ["--yes"])):
        said = CliRunner().invoke(command, words)
        assert isinstance(said.exception, HelmMissing)


def test_helm_is_not_led_to_another_cluster(
    places: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
):
    path = program(places[0] / "helm", "v3.22.0")
    for name in ("HELM_KUBECONTEXT", "HELM_KUBEAPISERVER", "HELM_KUBETOKEN"):
        monkeypatch.setenv(name, "other")
    helm = find_helm("mine.yaml", "ours")
    seen = "$KUBECONFIG $* $HELM_KUBECONTEXT$HELM_KUBEAPISERVER$HELM_KUBETOKEN"
    answer = json.dumps({"chart": "SEEN", "revision": 1, "status": "deployed"})
    path.write_text(f"#!/bin/sh\necho '{answer}' | /bin/sed \"s,SEEN,{seen},\"\n")
    record = asyncio.run(helm.record(Release("a", "b")))
    assert record is not None
    assert record.chart == (
        "mine.yaml get metadata a --output json --namespace b --kube-context=ours "
    )


def test_an_error_of_helm_is_one_line_without_its_warnings(places: tuple[Path, Path]):
    path = program(places[0] / "helm", "v3.22.0")
    helm = find_helm()
    path.write_text("#!/bin/sh\nprintf 'WARNING: a\\nError: b:\\n  c\\n' >&2\nexit 1\n")
    with pytest.raises(HelmRefusal, match=r"^b:; c$"):
        asyncio.run(helm.render({}, Release()))


def test_helm_can_finish_its_record_if_the_command_is_interrupted(
    places: tuple[Path, Path], tmp_path: Path
):
    path = program(places[0] / "helm", "v3.22.0")
    helm = find_helm()
    begun, ended = tmp_path / "begun", tmp_path / "ended"
    end = f"trap 'kill $!; echo > {ended}; exit 1' TERM"
    path.write_text(f"#!/bin/sh\n{end}\n/bin/sleep 60 &\necho > {begun}\nwait\n")

    async def interrupt() -> None:
        work = asyncio.create_task(helm.upgrade({}, Release()))
        while not begun.exists():
            await asyncio.sleep(0.01)
        work.cancel()
        await asyncio.gather(work, return_exceptions=True)

    asyncio.run(interrupt())
    assert ended.exists()


def test_a_null_reaches_helm_even_if_a_later_file_or_pair_says_it(tmp_path: Path):
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("resources: {limits: {cpu: 2}}\n")
    second.write_text("resources: {limits: null}\n")
    assert overrides([str(first), str(second)]) == {"resources": {"limits": None}}
    assert overrides(pairs=["resources.limits=null"]) == {"resources": {"limits": None}}
    assert "limits" not in read_values([str(first), str(second)])["resources"]


# --- the command ---


def test_install_prints_everything_that_it_would_apply():
    usable_helm()
    said = CliRunner().invoke(install, ["--print", "--set", "image.repository=example.com/w"])
    assert said.exit_code == 0
    found = list(yaml.safe_load_all(said.output))
    assert [each["kind"] for each in found[:2]] == ["Namespace", "CustomResourceDefinition"]
    kinds = {each["kind"] for each in found}
    assert kinds == {kind for _, kind in (*CLUSTER_KINDS, *NAMESPACE_KINDS)} - {
        "ServiceMonitor"
    } | {"Namespace", DEFINITION}
    assert f"example.com/w:{__version__}" in said.output


def test_install_asks_what_to_do():
    assert CliRunner().invoke(install, []).exit_code == 2


def test_install_writes_the_chart_for_those_who_use_helm(tmp_path: Path):
    assert CliRunner().invoke(install, ["--chart", str(tmp_path)]).exit_code == 0
    assert (tmp_path / "templates/scheduler.yaml").read_text()
    assert (tmp_path / "definitions/queues.yaml").read_text()
    assert (tmp_path / "rights/scheduler.yaml").read_text()
