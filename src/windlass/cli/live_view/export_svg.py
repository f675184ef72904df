"""A frame of the live view as an SVG picture for documents; it loads nothing from elsewhere."""

from __future__ import annotations

import io

from rich.console import Console, RenderableType
from rich.terminal_theme import TerminalTheme

from windlass.cli.live_view.view import TerminalSize

COLOURS = [
    (39, 45, 52),
    (244, 124, 112),
    (79, 196, 140),
    (229, 170, 74),
    (127, 166, 238),
    (238, 154, 181),
    (134, 229, 199),
    (233, 236, 239),
]
THEME = TerminalTheme((12, 14, 17), COLOURS[-1], COLOURS, [(74, 84, 96), *COLOURS[1:]])

# The template that rich fills in; the font is any fixed-width font of the reader.
FORMAT = """\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">
<style>
.{unique_id}-matrix {{
  font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace;
  font-size: {char_height}px; line-height: {line_height}px; white-space: pre;
}}
.{unique_id}-title {{ font-family: system-ui, sans-serif; font-size: 18px; font-weight: 600; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect x="0" y="0" width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def as_svg(frame: RenderableType, size: TerminalSize, title: str) -> str:
    """Return the frame as it would look in a terminal of that size."""
    console = Console(
        width=size.width,
        height=size.height,
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
    )
    console.print(frame)
    return console.export_svg(title=title, theme=THEME, code_format=FORMAT, unique_id="windlass")
