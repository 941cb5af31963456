"""A row of swatches under a picture: each colour and pattern with its meaning."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from tidelog.web.svg.drawing import Drawing

LEGEND_HEIGHT = 26
_CHARACTER, _SWATCH, _GAP = 6.4, 16, 14


class Swatch(NamedTuple):
    """A fill class and a pattern of ``drawing``, with their meaning."""

    fill: str
    pattern: str
    text: str


def draw_legend(drawing: Drawing, x: float, y: float, swatches: Iterable[Swatch]) -> None:
    """Draw the swatches from ``x`` on; ``y`` is the top of the row."""
    for swatch in swatches:
        drawing.rect(x, y + 4, _SWATCH, 12, swatch.fill, pattern=swatch.pattern)
        drawing.text(x + _SWATCH + 5, y + 14, swatch.text, style="faint")
        x += _SWATCH + 5 + _CHARACTER * len(swatch.text) + _GAP
