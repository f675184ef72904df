"""Plots as SVG: lines over time, and bars. Plain text in, plain text out."""

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


@dataclass(frozen=True, slots=True)
class PlotBar:
    """A row of bars: its name, and its values from the smallest on."""

    name: str
    values: tuple[float, ...]


def lines(
    series: Mapping[str, Sequence[tuple[int, float]]], unit: str, top: float | None = None
) -> str:
    """Values over time; without a top, the largest value is at the top."""
    points = [point for some in series.values() for point in some]
    end = max((at for at, _ in points), default=0) or 1
    most = top or max((value for _, value in points), default=0.0) or 1.0
    drawn = [_axes(end, most, unit)]
    for number, (name, some) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{_x(at, end):.1f},{_y(value, most):.1f}" for at, value in some)
        drawn.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.3" points="{path}">'
            f"<title>{escape(name)}</title></polyline>"
        )
        if len(series) > 1:
            drawn.append(_key(number, name, colour))
    rows = (len(series) + 5) // 6 if len(series) > 1 else 0
    return _svg(HEIGHT + 18 * rows, drawn)


def bars(rows: Sequence[PlotBar], unit: str) -> str:
    """A row for each bar, the values written beside it."""
    most = max((each.values[-1] for each in rows), default=0.0) or 1.0
    drawn: list[str] = []
    for number, each in enumerate(rows):
        top = number * (BAR_HEIGHT + 6) + 4
        drawn.append(f'<text x="0" y="{top + 12}">{escape(each.name)}</text>')
        for value, colour in zip(reversed(each.values), COLOURS, strict=False):
            width = (WIDTH - NAMES - 190) * value / most
            drawn.append(
                f'<rect x="{NAMES}" y="{top}" width="{width:.1f}" height="{BAR_HEIGHT}" '
                f'fill="{colour}" fill-opacity="0.75"/>'
            )
        said = " / ".join(f"{value:,.1f}".removesuffix(".0") for value in each.values)
        end = NAMES + (WIDTH - NAMES - 190) * each.values[-1] / most + 8
        drawn.append(f'<text x="{end:.1f}" y="{top + 12}">{said} {escape(unit)}</text>')
    return _svg(len(rows) * (BAR_HEIGHT + 6) + 8, drawn)


def _svg(height: int, drawn: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(drawn)}</svg>'


def _axes(end: int, most: float, unit: str) -> str:
    base = HEIGHT - BELOW
    drawn = [
        f'<path d="M{LEFT},10 V{base} H{WIDTH - 10}" fill="none" stroke="var(--faint)"/>',
        f'<text x="0" y="18">{most:,.4g}</text><text x="0" y="36">{escape(unit)}</text>',
        f'<text x="0" y="{base}">0</text>',
    ]
    step = DAY * max(1, end // DAY // MOST_MARKS)
    if end < DAY:
        step = next(each for each in STEPS if end // each <= MOST_MARKS)
    drawn += [
        f'<text x="{_x(at, end):.0f}" y="{HEIGHT - 6}">{_time(at, end)}</text>'
        for at in range(0, end + 1, step)
    ]
    return "".join(drawn)


def _time(at: int, end: int) -> str:
    """An instant, as finely as an axis of this length tells it."""
    if end >= DAY:
        return f"day {at // DAY}"
    return f"{at // HOUR}:{at // 60 % 60:02} h" if end >= HOUR else f"{at // 60} min"


def _key(number: int, name: str, colour: str) -> str:
    x, y = LEFT + number % 6 * 135, HEIGHT + 12 + number // 6 * 18
    return f'<text x="{x}" y="{y}" style="fill:{colour}">■ {escape(name[:16])}</text>'


def _x(at: int, end: int) -> float:
    return LEFT + (WIDTH - LEFT - 10) * at / end


def _y(value: float, most: float) -> float:
    return HEIGHT - BELOW - (HEIGHT - BELOW - 10) * min(value, most) / most
