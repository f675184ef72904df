"""Sentences and counts as the command line prints them."""

from __future__ import annotations

import pytest

from windlass.cli.format import counted, sentence
from windlass.cli.output import reason_sentence
from windlass.model.reasons import Reason, ReasonCode


@pytest.mark.parametrize(
    ("clause", "text"),
    [
        ("it needs 2 tasks", "It needs 2 tasks."),
        ("2 nodes: cordoned", "2 nodes: cordoned."),
        ("did you mean x?", "Did you mean x?"),
        ("Full", "Full."),
        ("", ""),
    ],
)
def test_a_clause_becomes_a_sentence(clause: str, text: str):
    assert sentence(clause) == text


def test_a_name_at_the_start_of_a_sentence_keeps_its_first_letter():
    assert sentence("low is evicted", "low") == "low is evicted."
    assert sentence("lower limits help", "low") == "Lower limits help."


def test_the_sentence_of_a_reason_keeps_the_name_of_a_gang():
    values = {"gang": "ml/low~0123abcd", "wait": "90 s", "saved": 1, "tasks": 2}
    reason = Reason(ReasonCode.AWAITS_SAVE, values)
    assert reason_sentence(str(reason), reason.values).startswith("ml/low is asked to save")
    held = Reason(ReasonCode.HELD)
    assert reason_sentence(str(held), held.values).startswith("Places are held for it")


def test_counts_have_a_singular_and_a_plural():
    texts = [counted(number, "task") for number in (0, 1, 2, 1200)]
    assert texts == ["0 tasks", "1 task", "2 tasks", "1,200 tasks"]
