"""The daemon's configuration: the precedence of sources, and errors for wrong values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.checkout import ROOT
from windlass.config import Config, Option, options, read_config
from windlass.model.errors import InputError

PAGE = ROOT / "docs/reference/config.md"

# What the kubelet puts into every pod beside a Service named "windlass".
SERVICE_LINKS = {
    "WINDLASS_PORT": "tcp://10.0.0.7:10259",
    "WINDLASS_PORT_10259_TCP": "tcp://10.0.0.7:10259",
    "WINDLASS_PORT_10259_TCP_ADDR": "10.0.0.7",
    "WINDLASS_PORT_10259_TCP_PORT": "10259",
    "WINDLASS_PORT_10259_TCP_PROTO": "tcp",
    "WINDLASS_SERVICE_HOST": "10.0.0.7",
    "WINDLASS_SERVICE_PORT": "10259",
    "WINDLASS_SERVICE_PORT_METRICS": "10259",
    "WINDLASS_METRICS_PORT": "tcp://10.0.0.8:80",
    "WINDLASS_METRICS_SERVICE_PORT": "80",
}


@pytest.fixture
def write(tmp_path: Path):
    def write(text: str) -> str:
        file = tmp_path / "windlass.yaml"
        file.write_text(text)
        return str(file)

    return write


def refused(file: str | None, environment: dict[str, str], flags: dict[str, Any]) -> str:
    with pytest.raises(InputError) as caught:
        read_config(file, environment, flags)
    return str(caught.value)


def test_every_key_has_a_default():
    found = read_config(None, {}, {})
    assert found == Config()
    assert (found.scheduler_names, found.port, found.lease.duration_s) == (["windlass"], 10259, 15)


def test_outside_of_a_pod_only_the_local_address_is_served_by_default(monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    assert Config().listens_on == "127.0.0.1"
    assert Config(address="10.0.0.7").listens_on == "10.0.0.7"
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
    assert Config().listens_on == "0.0.0.0"


def test_flags_override_the_environment_and_that_overrides_the_file(write: Any):
    file = write("port: 1\nlease: {duration_s: 20, name: mine}\nshadow: true\n")
    environment = {"WINDLASS_PORT": "2", "WINDLASS_LEASE_DURATION_S": "30", "HOME": "/"}
    found = read_config(file, environment, {"port": 3, "lease.duration_s": None})
    assert (found.port, found.lease.duration_s) == (3, 30)
    assert (found.lease.name, found.lease.retry_s, found.shadow) == ("mine", 2, True)


def test_every_key_can_be_set_in_the_environment():
    environment = {
        "WINDLASS_SCHEDULER_NAMES": "windlass, default-scheduler",
        "WINDLASS_NODE_SELECTOR": "pool=gpu,tier=a",
        "WINDLASS_SHADOW": "true",
        "WINDLASS_LOG_FORMAT": "text",
        "WINDLASS_EVICTIONS_PER_QUEUE_PER_MINUTE": "0",
    }
    found = read_config(None, environment, {})
    assert found.scheduler_names == ["windlass", "default-scheduler"]
    assert found.node_selector == {"pool": "gpu", "tier": "a"}
    assert (found.shadow, found.log.format) == (True, "text")
    assert found.evictions_per_queue_per_minute == 0


def test_a_file_of_comments_is_empty(write: Any):
    assert read_config(write("# nothing yet\n"), {}, {}) == Config()
    assert read_config(write(""), {}, {}) == Config()


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("port: 1\nschedulerNames: [a]\n", 2, 'did you mean "scheduler_names"?'),
        ("lease:\n  name: a\n  duration: 5\n", 3, 'did you mean "duration_s"?'),
        ("zzz: 1\n", 1, "known are scheduler_names, "),
        ("log:\n  colour: red\n", 2, "known are format, level"),
        ("shadow: true\nport: high\n", 2, 'port: expected a whole number, found "high"'),
        ('port: "10259"\n', 1, 'port: expected a whole number, found "10259"'),
        ("port: 99999\n", 1, "port: expected less than or equal to 65535"),
        ("kubeconfig:\n", 1, "kubeconfig: expected text, in quotes, found nothing"),
        ("namespaces: team-a\n", 1, "namespaces: expected a list"),
        ("namespaces: [a, 3]\n", 1, "namespaces: expected text"),
        ("scheduler_names: []\n", 1, "scheduler_names: "),
        ("node_selector:\n  pool: yes\n", 2, "node_selector.pool: expected text"),
        ("lease: 3\n", 1, "lease: expected a mapping"),
        ("log: {level: loud}\n", 1, "expected 'debug', 'info', 'warning' or 'error'"),
        ("port: 1\nport: 2\n", 2, '"port" stands in line 1 already; keep one'),
        ("port: [\n", 2, "this is not YAML"),
    ],
)
def test_an_invalid_file_is_refused_with_its_line(write: Any, text: str, line: int, words: str):
    file = write(text)
    sentence = refused(file, {}, {})
    assert sentence.startswith(f"{file}:{line}: ")
    assert words in sentence


@pytest.mark.parametrize("text", ["- a\n", "plain\n", "1: 2\n", "day: 2001-99-99\n", "a: \x00\n"])
def test_a_file_without_a_mapping_is_refused_with_its_name(write: Any, text: str):
    file = write(text)
    assert refused(file, {}, {}).startswith(f"{file}: ")


def test_a_missing_file_is_refused_in_one_sentence(tmp_path: Path):
    file = str(tmp_path / "none.yaml")
    assert refused(file, {}, {}).startswith(f"{file}: it cannot be read (No such file")


def test_a_wrong_value_is_reported_at_its_source(write: Any):
    file = write("port: 1\nlease: {duration_s: 20}\n")
    assert refused(file, {"WINDLASS_PORT": "high"}, {}).startswith("WINDLASS_PORT: port: expected")
    assert refused(file, {"WINDLASS_PORT": "2"}, {"port": -1}).startswith("--port: port: expected")
    assert refused(file, {}, {"lease.duration_s": 4}).startswith("--lease-duration-s: lease: ")
    assert refused(write("lease: 3"), {"WINDLASS_LEASE_RETRY_S": "1"}, {}).startswith(f"{file}:1: ")


def test_the_times_of_a_lease_must_be_in_order(write: Any):
    sentence = refused(write("lease: {renew_deadline_s: 15}\n"), {}, {})
    assert "retry_s, renew_deadline_s and duration_s are 2, 15 and 15" in sentence


def test_a_misspelt_variable_is_refused_and_a_foreign_one_is_not():
    sentence = refused(None, {"WINDLASS_LEASE_DURATION": "5"}, {})
    assert sentence == (
        'WINDLASS_LEASE_DURATION: it is not known; did you mean "WINDLASS_LEASE_DURATION_S"?'
    )
    tools = dict.fromkeys(("CACHE", "DATA", "PROOF", "REQUIRE", "LIVE"), "x")
    environment = {f"WINDLASS_{name}": value for name, value in tools.items()}
    assert read_config(None, environment, {}) == Config()


def test_variables_of_a_service_named_windlass_are_ignored():
    assert read_config(None, SERVICE_LINKS, {}) == Config()


def test_no_two_keys_share_a_variable_or_a_flag():
    found = list(options())
    assert len({each.variable for each in found}) == len({each.flag for each in found})
    assert len({each.variable for each in found}) == len(found)
    assert all(each.meaning for each in found)


def test_the_reference_page_lists_every_key():
    assert table() in PAGE.read_text()


def table() -> str:
    head = ["| key | default | meaning |", "|---|---|---|"]
    rows = [f"| `{each.key}` | {_shown(each)} | {each.meaning} |" for each in options()]
    return "\n".join([*head, *rows]) + "\n"


def _shown(option: Option) -> str:
    if isinstance(option.default, bool):
        return f"`{str(option.default).lower()}`"
    if isinstance(option.default, list):
        return f"`[{', '.join(map(str, option.default))}]`" if option.default else "none"
    return f"`{option.default}`" if option.default or option.default == 0 else "none"


def test_the_url_of_the_history_is_not_shown_with_the_configuration():
    found = read_config(None, {"WINDLASS_HISTORY_URL": "postgresql://u:hunter2@h/d"}, {})
    assert found.history.url.endswith("/d")
    assert "hunter2" not in repr(found)
