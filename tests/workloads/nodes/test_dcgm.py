"""The reports of DCGM exporters: utilisation and suspect GPUs, for any input text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.kube_given import pod
from windlass.model.nodes import NodeStanding, NodeTrouble
from windlass.workloads.nodes.dcgm import (
    HARDWARE,
    LONGEST,
    Reading,
    exporter_of,
    read_report,
    suspects,
    trouble_of_gpus,
)

MORE = 'UUID="GPU-5c1e",device="nvidia3",modelName="NVIDIA H100 80GB HBM3",Hostname="n1"'


def used(gpu: object, value: object, labels: str = MORE) -> str:
    return f'DCGM_FI_DEV_GPU_UTIL{{gpu="{gpu}",{labels}}} {value}\n'


def failed(gpu: object, xid: object, labels: str = MORE) -> str:
    return f'DCGM_FI_DEV_XID_ERRORS{{gpu="{gpu}",{labels}}} {xid}\n'


def told(*lines: str) -> Reading | None:
    return read_report("".join(lines).encode())


# --- texts


def test_a_report_has_utilisation_and_the_last_xid_error_per_gpu():
    text = (
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n",
        "# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n",
        *(used(0, 87), used(2, 0), used(1, "100 1768000000000")),
        *('DCGM_FI_DEV_SM_CLOCK{gpu="0"} 1980\n', failed(0, 0), failed(2, 79)),
    )
    assert told(*text) == Reading((870, 1000, 0), ((0, 0), (2, 79)))


def test_a_gpu_without_a_row_has_unknown_utilisation():
    assert told(used(2, 12.34)) == Reading((-1, -1, 123))


def test_labels_are_read_in_any_order_with_spaces_and_punctuation():
    odd = r'a="},gpu=\"7",gpu = "1", pod="x"'
    assert told(f"DCGM_FI_DEV_GPU_UTIL{{{odd}}} 5\r\n") == Reading((-1, 50))


def test_mig_rows_give_xid_errors_but_no_utilisation():
    mig = 'GPU_I_PROFILE="1g.10gb",GPU_I_ID="7"'
    assert told(used(0, 50, mig), failed(0, 79, mig)) == Reading(xids=((0, 79),))
    assert told(used(0, 50, mig), used(1, 7, 'GPU_I_ID=""')) == Reading((-1, 70))


def test_the_worst_of_several_rows_for_a_shared_gpu_counts():
    rows = [used(0, 30), used(0, 90), failed(0, 79), failed(0, 109), failed(0, 0)]
    assert told(*rows) == Reading((900,), ((0, 79),))


@pytest.mark.parametrize(
    "line",
    [
        "",
        used(0, "NaN"),
        used(0, "+Inf"),
        used(0, 101),
        used(0, -1),
        used(0, "9.223372036854776e+18"),
        used(0, ""),
        used("", 5),
        used("x", 5),
        used(-1, 5),
        used(999, 5),
        used("\u0663", 5),
        failed(0, 2147483632),
        failed(0, "seventy-nine"),
        "DCGM_FI_DEV_GPU_UTIL 5\n",
        'DCGM_FI_DEV_GPU_UTIL{gpu="0" 5\n',
        'DCGM_FI_DEV_GPU_UTIL_OTHER{gpu="0"} 5\n',
        used(0, 5, f'a="{"x" * 9000}"'),
        "<html>404</html>",
    ],
)
def test_a_malformed_row_is_ignored(line: str):
    assert told(line) is None
    assert told(line, "\n", used(0, 5)) == Reading((50,))


def test_an_oversized_report_is_read_in_part_and_quickly():
    assert told(used(0, 5), "x" * LONGEST, "\n", used(1, 5)) == Reading((50,))
    for part in ("a", '"', "\\", 'a="', '\\"', "{", "}", " ", "\n", used(0, 5)):
        read_report(b"DCGM_FI_DEV_GPU_UTIL{" + (part * (LONGEST // len(part))).encode())


SCRAPS = st.sampled_from(
    [used(0, 5), failed(1, 79), "DCGM_FI_DEV_XID_ERRORS{", 'gpu="', '"', "\\", "}", " ", "1", "\n"]
)


@given(st.one_of(st.binary(max_size=500), st.lists(SCRAPS).map("".join).map(str.encode)))
def test_arbitrary_bytes_give_a_valid_reading_or_none(text: bytes):
    found = read_report(text)
    if found is not None:
        assert all(-1 <= each <= 1000 for each in found.utilisation)
        assert all(0 <= gpu < 512 and xid >= 0 for gpu, xid in found.xids)
        trouble_of_gpus(suspects({}, found), 1)


# --- suspects


@pytest.mark.parametrize(
    ("before", "now", "after"),
    [
        ({}, {3: 79}, {3: 79}),
        ({3: 79}, {3: 0}, {}),
        ({3: 79}, {3: 48}, {3: 48}),
        ({3: 79}, {3: 13}, {3: 79}),
        ({3: 79}, {0: 0}, {3: 79}),
        ({}, {3: 13, 2: 31, 1: 43, 0: 45}, {}),
        ({1: 48}, {3: 79, 1: 48}, {1: 48, 3: 79}),
    ],
    ids=(
        *("already there", "gone", "another", "hidden by an application", "not told of"),
        *("applications", "several"),
    ),
)
def test_a_gpu_is_suspect_until_its_exporter_reports_0(
    before: dict[int, int], now: dict[int, int], after: dict[int, int]
):
    assert suspects(before, Reading((), tuple(now.items()))) == after


def test_a_node_with_a_suspect_gpu_is_avoided_with_a_reason():
    why = "ill: GPU 3 reports XID 79 (fell off the bus)"
    assert trouble_of_gpus({3: 79}, 7) == NodeTrouble(NodeStanding.AVOIDED, why, 7)
    several = trouble_of_gpus({5: 48, 3: 79, 4: 79}, 7)
    assert several is not None
    assert several.what == f"{why}, and 2 more do so too"
    assert trouble_of_gpus({}, 7) is None


def test_errors_of_applications_are_not_in_the_table():
    assert not HARDWARE.keys() & {13, 31, 43, 45, 68, 109}


# --- pods


def exporter(**fields: Any) -> Any:
    labels = fields.pop("labels", {"app": "nvidia-dcgm-exporter"})
    status = {"podIP": "10.1.2.3"} | fields.pop("status", {})
    given = {"node": "n1", "phase": "Running", "labels": labels, "status": status}
    return exporter_of(pod("dcgm", **given | fields))


def test_an_exporter_is_found_by_its_label_and_has_its_own_url():
    assert exporter().url == "http://10.1.2.3:9400/metrics"
    assert exporter(labels={"app.kubernetes.io/name": "dcgm-exporter"}) is not None
    assert exporter(status={"podIP": "fd00::1"}).url == "http://[fd00::1]:9400/metrics"
    ports = [{"name": "health", "containerPort": 1}, {"name": "metrics", "containerPort": 9500}]
    assert exporter(containers=[{"name": "a", "ports": ports}]).url.endswith(":9500/metrics")


@pytest.mark.parametrize(
    "fields",
    [
        {"labels": {"app": "train"}},
        {"phase": "Pending"},
        {"node": ""},
        {"status": {"podIP": ""}},
        {"deleted": "2026-01-01T00:00:00Z"},
    ],
    ids=("another pod", "it does not run", "nowhere", "no address", "it goes"),
)
def test_a_pod_that_cannot_be_scraped_is_no_exporter(fields: dict[str, Any]):
    assert exporter(**fields) is None


def test_a_restarted_container_is_another_exporter_process():
    again = {"containerStatuses": [{"name": "a", "restartCount": 2}]}
    assert exporter(status=again).process != exporter().process
