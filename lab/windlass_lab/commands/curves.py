"""Curves as SVG: a few lines over one pair of axes, in a self-contained file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TypeAlias

Points: TypeAlias = Sequence[tuple[float, float]]

WIDTH, HEIGHT, MARGIN = 720, 420, 48
COLOURS = ("#8a8f98", "#c98a2b", "#3a9d6e", "#2f6fde", "#d1495b")
MOST_POINTS = 260
"""The number of points of a line that are drawn; more are not visible."""


def svg(lines: Mapping[str, Points], across: str, up: str) -> str:
    """Return one curve per name, with a key to the colours."""
    right = max(x for points in lines.values() for x, _ in points)
    top = max([1.0, *(y for points in lines.values() for _, y in points)])
    parts = [_frame(right, top, across, up)]
    for at, (name, points) in enumerate(lines.items()):
        colour = COLOURS[at % len(COLOURS)]
        few = points[:: max(1, len(points) // MOST_POINTS)]
        path = " ".join(f"{_x(x, right):.1f},{_y(y, top):.1f}" for x, y in few)
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.6" points="{path}"/>'
        )
        y = HEIGHT - MARGIN - 16 * (len(lines) - at)
        parts.append(f'<text x="{WIDTH - 150}" y="{y}" fill="{colour}">{escape(name)}</text>')
    size = f'width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}"'
    style = 'font-family="sans-serif" font-size="12"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size} {style}>{"".join(parts)}</svg>\n'


def _frame(right: float, top: float, across: str, up: str) -> str:
    parts = ['<rect width="100%" height="100%" fill="#ffffff"/>']
    for tick in range(0, int(right) + 1, 10):
        x = _x(tick, right)
        parts.append(f'<text x="{x:.0f}" y="{HEIGHT - 30}" text-anchor="middle">{tick}</text>')
    for tick in range(0, int(top) + 1, 10):
        y = _y(tick, top)
        line = f'x1="{MARGIN}" x2="{WIDTH - 16}" y1="{y:.0f}" y2="{y:.0f}"'
        parts.append(f'<line {line} stroke="#e3e6ea"/>')
        parts.append(f'<text x="{MARGIN - 8}" y="{y + 4:.0f}" text-anchor="end">{tick}</text>')
    parts.append(
        f'<text x="{WIDTH // 2}" y="{HEIGHT - 10}" text-anchor="middle">{escape(across)}</text>'
    )
    parts.append(f'<text x="{MARGIN}" y="20">{escape(up)}</text>')
    return "".join(parts)


def _x(value: float, right: float) -> float:
    return MARGIN + value / right * (WIDTH - MARGIN - 16)


def _y(value: float, top: float) -> float:
    return HEIGHT - MARGIN - value / top * (HEIGHT - MARGIN - 32)
