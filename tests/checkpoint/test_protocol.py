"""The checkpoint protocol between the scheduler and the training code."""

from __future__ import annotations

import inspect
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.checkout import ROOT
from windlass.checkpoint import listeners, protocol
from windlass.checkpoint.protocol import (
    PREFIX,
    Ack,
    CheckpointRequest,
    SaveState,
    accepts,
    read_ack,
    read_request,
)
from windlass.workloads.objects import annotations as marks

MOMENTS = st.integers(0, 4_000_000_000)
WORDS = st.text(st.characters(codec="utf-8"), max_size=40)
REQUESTS = st.builds(CheckpointRequest, st.text("abc-09", min_size=1), MOMENTS, WORDS)
ACKS = st.builds(Ack, WORDS, st.sampled_from(SaveState), st.integers(0, 10**12), WORDS, MOMENTS)

REQUESTED = CheckpointRequest("7f3a", 1_000, "room for a gang of priority 100")
DONE = Ack("7f3a", SaveState.DONE, 120, "/checkpoints/step-120", 990)


def test_checkpoint_and_workload_annotations_have_the_same_prefix() -> None:
    assert PREFIX == marks.PREFIX


def test_every_annotation_and_variable_is_in_the_guide() -> None:
    guide = (ROOT / "docs/guides/checkpoint.md").read_text()
    annotations = {value for value in vars(protocol).values() if str(value).startswith(PREFIX)}
    variables = set(re.findall(r"WINDLASS_[A-Z_]+", inspect.getsource(listeners)))
    words = annotations - {PREFIX} | variables | set(protocol.RequestMode) | set(SaveState)
    assert len(words) > 10
    assert [word for word in sorted(words) if f"`{word}`" not in guide] == []


def test_an_answer_with_the_id_of_the_request_is_accepted() -> None:
    assert accepts(REQUESTED, DONE)


def test_a_stale_or_forged_answer_is_rejected() -> None:
    assert not accepts(REQUESTED, None)
    assert not accepts(REQUESTED, replace(DONE, id="7f39"))
    assert not accepts(REQUESTED, replace(DONE, id=""))
    assert not accepts(replace(REQUESTED, id=""), replace(DONE, id=""))


def test_an_answer_with_an_earlier_step_than_the_last_is_rejected() -> None:
    before = Ack("0001", SaveState.DONE, 121)
    assert not accepts(REQUESTED, DONE, last=before)
    assert accepts(REQUESTED, replace(DONE, step=121), last=before)
    assert accepts(REQUESTED, replace(DONE, state=SaveState.SAVING, step=0), last=before)


@given(REQUESTS, ACKS)
def test_requests_and_answers_survive_encoding_and_decoding(
    request: CheckpointRequest, ack: Ack
) -> None:
    assert read_request(request.text()) == request
    assert read_ack(ack.text()) == ack


@given(st.text(max_size=200) | st.binary(max_size=200))
def test_arbitrary_text_is_read_without_an_error(text: str | bytes) -> None:
    assert read_request(text) is None or isinstance(read_request(text), CheckpointRequest)
    assert read_ack(text) is None or isinstance(read_ack(text), Ack)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "Traceback (most recent call last):",
        '{"id":"7f3a"}',
        '{"id":"7f3a","state":"finished","at":"2026-11-16T04:10:00Z"}',
        '{"id":"7f3a","state":"done","step":-1,"at":"2026-11-16T04:10:00Z"}',
        '{"id":"7f3a","state":"done","step":true,"at":"2026-11-16T04:10:00Z"}',
        '{"id":"7f3a","state":"done","step":1,"at":"yesterday"}',
        '{"id":"7f3a","state":"done","step":1,"at":"2026-11-16T04:10:00Z"}' + " " * 4096,
        "[" * 4000,
    ],
)
def test_text_that_is_no_answer_gives_none(text: str) -> None:
    assert read_ack(text) is None
