"""The colours of the dashboard are distinct, and its text is readable."""

from __future__ import annotations

import re
from itertools import combinations

import numpy as np
import pytest

from tests.support.checkout import ROOT
from windlass.cli.live_view.palette import ALL_STEPS

UI = ROOT / "ui/src"
THEMES = ("light", "dark")
DISTINCT = 0.04
"""In OKLab; about twice what is just noticed side by side."""
READABLE = 4.5
"""The contrast that text needs (WCAG 2, AA)."""

# Machado, Oliveira and Fernandes 2009, at full severity, for linear RGB
VISION = {
    "usual": np.eye(3),
    "protan": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deutan": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritan": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}


def queue_colours(theme: str) -> list[str]:
    source = (UI / "colours.ts").read_text()
    hues = re.search(rf"const HUES.*?{theme}: (\[\n.*?\n  \]),", source, re.S)
    assert hues is not None
    return re.findall(r"#[0-9A-F]{6}", hues[1])


def tokens(theme: str) -> dict[str, str]:
    source = (UI / "style/tokens.css").read_text()
    light, dark = source.split('[data-theme="dark"]')
    found = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light if theme == "light" else dark))
    assert found
    return found


@pytest.mark.parametrize("vision", VISION)
@pytest.mark.parametrize("theme", THEMES)
def test_no_two_queues_look_alike(theme: str, vision: str):
    colours = queue_colours(theme)
    assert len(colours) == 9
    seen = {colour: oklab(VISION[vision] @ linear(colour)) for colour in colours}
    close = [
        pair
        for pair in combinations(colours, 2)
        if np.linalg.norm(seen[pair[0]] - seen[pair[1]]) < DISTINCT
    ]
    assert close == []


@pytest.mark.parametrize("theme", THEMES)
def test_text_has_enough_contrast(theme: str):
    known = tokens(theme)
    words = ("text", "text-2", "text-3", "ok", "warn", "bad")
    grounds = ("bg", "surface", "raised", "sunken", "hover", "select")
    faint = [
        (word, ground)
        for word in words
        for ground in grounds
        if contrast(known[word], known[ground]) < READABLE
    ]
    assert faint == []


def test_queues_have_the_same_colours_in_the_terminal():
    assert queue_colours("dark") == list(ALL_STEPS)


def linear(colour: str) -> np.ndarray:
    parts = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    return np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)


def oklab(rgb: np.ndarray) -> np.ndarray:
    to_lms = np.array(
        [
            [0.4122214708, 0.5363325363, 0.0514459929],
            [0.2119034982, 0.6806995451, 0.1073969566],
            [0.0883024619, 0.2817188376, 0.6299787005],
        ]
    )
    to_lab = np.array(
        [
            [0.2104542553, 0.7936177850, -0.0040720468],
            [1.9779984951, -2.4285922050, 0.4505937099],
            [0.0259040371, 0.7827717662, -0.8086757660],
        ]
    )
    return to_lab @ np.cbrt(to_lms @ np.clip(rgb, 0, 1))


def contrast(one: str, other: str) -> float:
    weights = np.array([0.2126, 0.7152, 0.0722])
    bright, dim = sorted((float(weights @ linear(each)) for each in (one, other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)
