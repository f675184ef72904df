"""The Helm chart, its values, and `windlass install`, as far as they need no cluster."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from click.testing import CliRunner

from tests.support.checkout import ROOT
from windlass import __version__
from windlass.admission.creators import MAKERS
from windlass.cli.commands.install import install
from windlass.daemon.loop.watches import NEEDED, OWNERS
from windlass.daemon.serving.webhook import HOOK
from windlass.install.chart import Release, chart_files, folder, objects
from windlass.install.template import NotInChart, lines_of, render
from windlass.install.values import defaults, files, keys, merged, read_values
from windlass.model.errors import InputError
from windlass.workloads.kinds.table import KINDS


def made(*pairs: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The objects of an installation by kind and name."""
    found = objects(read_values(pairs=pairs), Release())
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


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
    values = merged(read_values(), {"serviceMonitor": {"enabled": True, "labels": {"a": "b"}}})
    for each in objects(values, Release("mine", "there")):
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "mine"
        assert labels["app.kubernetes.io/managed-by"] == "windlass"
        assert each["metadata"].get("namespace", "there") == "there"


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
    expected = {(group, plural) for (_, group), plural in MAKERS.items()}
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
    found = objects(merged(defaults(), {"rbac": {"extraRules": [rule]}}), Release())
    roles = {each["metadata"]["name"]: each for each in found if each["kind"] == "ClusterRole"}
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


# --- templates ---

SCOPE = {"Values": {"a": "<b>", "none": "", "list": ["x", "y"], "on": True}, "Chart": {"v": "1"}}


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{{ .Values.a }}", "<b>"),
        ("{{ toJson .Values.a }}", r'"\u003cb\u003e"'),
        ("{{ .Values.none | default .Chart.v }}", "1"),
        ('{{ join "," .Values.list }}', "x,y"),
        ('[{{ include "line" . }}]', "[on: True]"),
        ("{{- if .Values.none }}\nno\n{{- end }}\nyes", "yes"),
        ("{{- if .Values.on }}\n{{- if .Values.none }}\nno\n{{- end }}\nyes\n{{- end }}", "yes"),
    ],
)
def test_the_words_that_the_chart_uses_are_understood(template: str, text: str):
    lines = lines_of('{{- define "line" -}}\non: {{ .Values.on }}\n{{- end }}\n')
    assert render(template, SCOPE, lines) == f"{text}\n"


@pytest.mark.parametrize("template", ["{{ lookup .Values.a }}", "{{- if .Values.on }}"])
def test_a_word_that_is_not_understood_is_refused(template: str):
    with pytest.raises(NotInChart):
        render(template, SCOPE, {})


# --- the command ---


def test_install_prints_everything_that_it_would_apply():
    said = CliRunner().invoke(install, ["--print", "--set", "image.repository=example.com/w"])
    assert said.exit_code == 0
    found = list(yaml.safe_load_all(said.output))
    assert [each["kind"] for each in found[:2]] == ["Namespace", "CustomResourceDefinition"]
    assert f"example.com/w:{__version__}" in said.output


def test_install_asks_what_to_do():
    assert CliRunner().invoke(install, []).exit_code == 2


def test_install_writes_the_chart_for_those_who_use_helm(tmp_path: Path):
    assert CliRunner().invoke(install, ["--chart", str(tmp_path)]).exit_code == 0
    assert (tmp_path / "templates/scheduler.yaml").read_text()
    assert (tmp_path / "definitions/queues.yaml").read_text()
