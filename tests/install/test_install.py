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
def installed(*pairs: str) -> dict[tuple[str, str], dict[str, Any]]:
    """Return the objects of an installation by kind and name."""
    objects = render(overrides(pairs=pairs))
    return {(thing["kind"], thing["metadata"]["name"]): thing for thing in objects}


def granted(role: dict[str, Any], *verbs: str) -> set[tuple[str, str]]:
    """Return the API groups and resources for which a role allows all of these verbs."""
    return {
        (group, resource)
        for rule in role["rules"]
        if set(verbs) <= set(rule["verbs"])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


# --- the chart ---


def test_the_chart_in_the_repository_is_up_to_date():
    stored = {
        str(path.relative_to(folder())): path.read_text()
        for path in folder().rglob("*")
        if path.is_file()
    }
    assert stored == chart_files(), "run: windlass install --chart deploy/chart"


def test_the_chart_has_the_version_of_the_program():
    chart = yaml.safe_load((folder() / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == __version__


def test_every_object_has_the_labels_of_its_release():
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


def test_disabled_parts_are_not_rendered():
    objects = installed("webhook.enabled=false", "policy.enabled=false")
    kinds = {kind for kind, _ in objects}
    assert not kinds & {"MutatingWebhookConfiguration", "ValidatingAdmissionPolicy"}
    assert ("Secret", "windlass-webhook") not in objects
    assert "ServiceMonitor" not in kinds
    assert ("Service", "windlass-dashboard") in installed()
    assert ("Service", "windlass-dashboard") not in installed("dashboard.enabled=false")
    assert ("ServiceMonitor", "windlass-scheduler") in installed("serviceMonitor.enabled=true")


def test_a_changed_configuration_makes_new_pods():
    def digest(*pairs: str) -> str:
        pods = installed(*pairs)["Deployment", "windlass-scheduler"]["spec"]["template"]
        return pods["metadata"]["annotations"]["windlass.dev/config"]

    assert digest() == digest()
    assert digest() != digest("config.default_queue=everyone")


def test_the_pods_meet_the_restricted_pod_security_standard():
    for name in ("windlass-scheduler", "windlass-webhook"):
        pod = installed()["Deployment", name]["spec"]["template"]["spec"]
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
    assert "history" not in json.dumps(installed()["Deployment", "windlass-scheduler"])


def test_the_history_file_is_on_the_volume_and_the_url_is_from_the_secret():
    def pod(*pairs: str) -> dict[str, Any]:
        found = installed("history.enabled=true", *pairs)
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
    policies = installed("history.enabled=true", "history.secret=mine", "history.port=6432")
    (rule,) = policies["NetworkPolicy", "windlass-history"]["spec"]["egress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 6432}]


def test_the_network_policy_allows_dcgm_exporters_if_they_are_enabled():
    policies = installed("dcgm.port=9500")
    (rule,) = policies["NetworkPolicy", "windlass-dcgm"]["spec"]["egress"]
    assert rule["ports"] == [{"protocol": "TCP", "port": 9500}]
    without = installed("dcgm.enabled=false")
    assert ("NetworkPolicy", "windlass-dcgm") not in without
    (container,) = without["Deployment", "windlass-scheduler"]["spec"]["template"]["spec"][
        "containers"
    ]
    assert {"name": "WINDLASS_DCGM_ENABLED", "value": "false"} in container["env"]


# --- rights ---


def test_the_rights_file_equals_the_rendered_roles():
    rules = scheduler_rules("windlass")
    assert installed()["ClusterRole", "windlass-scheduler"]["rules"] == [
        *rules["cluster"],
        *rules["dashboard"],
    ]
    assert installed()["Role", "windlass-scheduler"]["rules"] == rules["namespace"]
    without = installed("dashboard.enabled=false")["ClusterRole", "windlass-scheduler"]
    assert without["rules"] == rules["cluster"]


def test_the_scheduler_may_read_exactly_what_it_watches():
    paths = [path for path, _ in NEEDED.values()] + list(OWNERS.values())
    watched = {re.fullmatch(r"/api(?:s/(.+))?/\w+/(\w+)", path) for path in paths}
    expected = {(found[1] or "", found[2]) for found in watched if found}
    assert len(expected) == len(set(paths))
    assert granted(installed()["ClusterRole", "windlass-scheduler"], "list", "watch") == expected


def test_the_scheduler_may_change_exactly_the_owners_that_can_be_suspended():
    paths = [row.path for row in KINDS.values() if row.suspend]
    expected = {(path.split("/")[2], path.rpartition("/")[2]) for path in paths}
    role = installed()["ClusterRole", "windlass-scheduler"]
    owners = {(path.split("/")[2], path.rpartition("/")[2]) for path in OWNERS.values()}
    assert granted(role, "patch") & owners == granted(role, "get") & owners == expected


def test_without_a_dashboard_there_are_no_rights_for_reviews():
    for pair, expected in (("dashboard.enabled=true", 2), ("dashboard.enabled=false", 0)):
        role = installed(pair)["ClusterRole", "windlass-scheduler"]
        reviews = {(g, name) for g, name in granted(role, "create") if name.endswith("reviews")}
        assert len(reviews) == expected


def test_rights_on_leases_and_secrets_are_limited_to_our_own():
    for role in ("windlass-scheduler", "windlass-webhook"):
        for rule in installed()["Role", role]["rules"]:
            assert rule["resourceNames"]
            assert "create" not in rule["verbs"]


def test_the_webhook_covers_and_may_read_the_kinds_with_a_creator():
    expected = {(group, plural) for (_, group), plural in CREATOR_KINDS.items()}
    hook = installed()["MutatingWebhookConfiguration", "windlass"]["webhooks"][0]
    policy = installed()["ValidatingAdmissionPolicy", "windlass-creator"]["spec"][
        "matchConstraints"
    ]
    for rules in (hook["rules"], policy["resourceRules"]):
        covered = {(r["apiGroups"][0], name) for r in rules for name in r["resources"]}
        assert covered == expected
    role = installed()["ClusterRole", "windlass-webhook"]
    others = {("admissionregistration.k8s.io", "mutatingwebhookconfigurations")}
    assert granted(role, "get") - others == expected
    assert hook["name"] == HOOK
    assert hook["failurePolicy"] == "Ignore"


def test_extra_rules_are_granted_to_the_scheduler():
    rule = {"apiGroups": ["my.dev"], "resources": ["runs"], "verbs": ["list", "watch"]}
    objects = render({"rbac": {"extraRules": [rule]}})
    roles = {
        thing["metadata"]["name"]: thing for thing in objects if thing["kind"] == "ClusterRole"
    }
    assert roles["windlass-scheduler-extra"]["rules"] == [rule]


# --- values ---


def test_the_defaults_match_the_schema():
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
def test_helm_refuses_the_same_values_by_the_schema(wrong: dict[str, Any]):
    schema = json.loads(files()["values.schema.json"])
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(merged(defaults(), wrong), schema)


def test_values_are_merged_as_helm_does_it(tmp_path: Path):
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


def test_built_programs_are_searched_in_the_folder_of_the_build():
    assert cache_folder().parent == program_cache()
    assert cache_folder().match("controlplane-*")


def program(path: Path, version: str) -> Path:
    """Write a program that reports this version of Helm."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\necho {version}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """Return the folders where Helm is searched: one in PATH, and one of built programs."""
    path, built = tmp_path / "bin", tmp_path / "cache" / "controlplane-v1.36.4"
    monkeypatch.setenv("PATH", str(path))
    monkeypatch.setenv("WINDLASS_CACHE", str(built.parent))
    return path, built


def test_helm_in_path_is_preferred_to_a_built_one(places: tuple[Path, Path]):
    in_path, built = places
    second = program(built / "helm", "v3.22.0+gabc")
    assert find_helm().path == second
    first = program(in_path / "helm", "v4.0.1")
    assert (find_helm().path, find_helm().version) == (first, (4, 0, 1))
    program(first, "v3.17")
    assert (find_helm().path, find_helm().version) == (first, (3, 17))
    program(first, "v3.16.9")  # too old
    assert (find_helm().path, find_helm().version) == (second, (3, 22, 0))


def test_without_helm_the_error_says_what_was_searched_and_how_to_get_it(
    places: tuple[Path, Path],
):
    with pytest.raises(HelmMissing) as raised:
        find_helm()
    assert str(raised.value) == (
        "Helm 3.17 or newer is needed and was not found in PATH or below "
        f"{places[1].parent}; install it as helm.sh describes (in a checkout, `windlass cluster "
        "--build` builds it)"
    )
    program(places[0] / "helm", "v3.16.9")
    program(places[1] / "helm", "nothing")
    with pytest.raises(HelmMissing, match=r"helm is 3\.16\.9, .*helm is no Helm that runs here"):
        find_helm()
    for command, words in ((install, ["--print"]), (install, ["--apply"]), (uninstall, ["--yes"])):
        result = CliRunner().invoke(command, words)
        assert isinstance(result.exception, HelmMissing)


def test_environment_variables_cannot_redirect_helm_to_another_cluster(
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


def test_an_interrupted_helm_has_time_to_finish_its_record(
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


def test_a_null_in_a_later_file_or_pair_reaches_helm(tmp_path: Path):
    first, second = tmp_path / "a.yaml", tmp_path / "b.yaml"
    first.write_text("resources: {limits: {cpu: 2}}\n")
    second.write_text("resources: {limits: null}\n")
    assert overrides([str(first), str(second)]) == {"resources": {"limits": None}}
    assert overrides(pairs=["resources.limits=null"]) == {"resources": {"limits": None}}
    assert "limits" not in read_values([str(first), str(second)])["resources"]


# --- the command ---


def test_install_prints_everything_that_it_would_apply():
    usable_helm()
    result = CliRunner().invoke(install, ["--print", "--set", "image.repository=example.com/w"])
    assert result.exit_code == 0
    objects = list(yaml.safe_load_all(result.output))
    assert [thing["kind"] for thing in objects[:2]] == ["Namespace", "CustomResourceDefinition"]
    kinds = {thing["kind"] for thing in objects}
    assert kinds == {kind for _, kind in (*CLUSTER_KINDS, *NAMESPACE_KINDS)} - {
        "ServiceMonitor"
    } | {"Namespace", DEFINITION}
    assert f"example.com/w:{__version__}" in result.output


def test_install_without_an_action_is_refused():
    assert CliRunner().invoke(install, []).exit_code == 2


def test_install_writes_the_chart_for_use_with_helm(tmp_path: Path):
    assert CliRunner().invoke(install, ["--chart", str(tmp_path)]).exit_code == 0
    assert (tmp_path / "templates/scheduler.yaml").read_text()
    assert (tmp_path / "definitions/queues.yaml").read_text()
    assert (tmp_path / "rights/scheduler.yaml").read_text()
