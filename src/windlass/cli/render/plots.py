"""SVG plots as text: lines over time, and bars. No library and no file is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT, LEFT, BELOW = 900, 220, 70, 24
BAR_HEIGHT, NAMES = 16, 190
COLOURS = (
    *("#3b7dd8", "#d9822b", "#3a9d5d", "#b5485f", "#7d5bbe", "#8a8f3c"),
    *("#2aa3a3", "#c05ca8", "#7a6a58", "#5c7ea0", "#d0a92b", "#777777"),
)
HOUR, DAY = 3600, 86400
STEPS = (60, 300, 600, HOUR // 2, HOUR, 2 * HOUR, 3 * HOUR)
"""Seconds between the marks of a time axis of less than a day."""
MOST_MARKS = 10
"""The most marks of a time axis."""


@dataclass(frozen=True, slots=True)
class PlotBar:
    """A row of a bar plot: its name, and its values in ascending order."""

    name: str
    values: tuple[float, ...]


def lines(
    series: Mapping[str, Sequence[tuple[int, float]]], unit: str, top: float | None = None
) -> str:
    """Return a plot of values over time (seconds); `top` is the upper end of the value axis.

    Without `top` the largest value is the upper end.
    """
    points = [point for line in series.values() for point in line]
    end = max((at for at, _ in points), default=0) or 1
    most = top or max((value for _, value in points), default=0.0) or 1.0
    shapes = [_axes(end, most, unit)]
    for number, (name, line) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{_x(at, end):.1f},{_y(value, most):.1f}" for at, value in line)
        shapes.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.3" points="{path}">'
            f"<title>{escape(name)}</title></polyline>"
        )
        if len(series) > 1:
            shapes.append(_legend(number, name, colour))
    rows = (len(series) + 5) // 6 if len(series) > 1 else 0
    return _svg(HEIGHT + 18 * rows, shapes)


def bars(rows: Sequence[PlotBar], unit: str) -> str:
    """Return a plot with a row for each bar, and the values as text beside it."""
    most = max((row.values[-1] for row in rows), default=0.0) or 1.0
    shapes: list[str] = []
    for number, row in enumerate(rows):
        top = number * (BAR_HEIGHT + 6) + 4
        shapes.append(f'<text x="0" y="{top + 12}">{escape(row.name)}</text>')
        # The largest value first, so that the smaller bars are drawn over it.
        for value, colour in zip(reversed(row.values), COLOURS, strict=False):
            width = (WIDTH - NAMES - 190) * value / most
            shapes.append(
                f'<rect x="{NAMES}" y="{top}" width="{width:.1f}" height="{BAR_HEIGHT}" '
                f'fill="{colour}" fill-opacity="0.75"/>'
            )
        numbers = " / ".join(f"{value:,.1f}".removesuffix(".0") for value in row.values)
        end = NAMES + (WIDTH - NAMES - 190) * row.values[-1] / most + 8
        shapes.append(f'<text x="{end:.1f}" y="{top + 12}">{numbers} {escape(unit)}</text>')
    return _svg(len(rows) * (BAR_HEIGHT + 6) + 8, shapes)


def _svg(height: int, shapes: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(shapes)}</svg>'


def _axes(end: int, most: float, unit: str) -> str:
    base = HEIGHT - BELOW
    shapes = [
        f'<path d="M{LEFT},10 V{base} H{WIDTH - 10}" fill="none" stroke="var(--faint)"/>',
        f'<text x="0" y="18">{most:,.4g}</text><text x="0" y="36">{escape(unit)}</text>',
        f'<text x="0" y="{base}">0</text>',
    ]
    step = DAY * max(1, end // DAY // MOST_MARKS)
    if end < DAY:
        step = next(step for step in STEPS if end // step <= MOST_MARKS)
    shapes += [
        f'<text x="{_x(at, end):.0f}" y="{HEIGHT - 6}">{_time(at, end)}</text>'
        for at in range(0, end + 1, step)
    ]
    return "".join(shapes)


def _time(at: int, end: int) -> str:
    """Return the label of a time on an axis of this length: days, hours or minutes."""
    if end >= DAY:
        return f"day {at // DAY}"
    return f"{at // HOUR}:{at // 60 % 60:02} h" if end >= HOUR else f"{at // 60} min"


def _legend(number: int, name: str, colour: str) -> str:
    x, y = LEFT + number % 6 * 135, HEIGHT + 12 + number // 6 * 18
    return f'<text x="{x}" y="{y}" style="fill:{colour}">■ {escape(name[:16])}</text>'


def _x(at: int, end: int) -> float:
    return LEFT + (WIDTH - LEFT - 10) * at / end


def _y(value: float, most: float) -> float:
    return HEIGHT - BELOW - (HEIGHT - BELOW - 10) * min(value, most) / most
