"""Horizontal bars: one row for each item, with its name, its share of the largest one, and its value as text."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.web.page import Row
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.scale import Scale

_WIDTH, _LABELS, _VALUES, _ROW = 900, 260, 110, 22
_LONGEST_NAME = 34


def draw_bars(
    items: Sequence[Row],
    *,
    title: str,
    name: str,
    value: str,
    text: Callable[[int], str],
    url: Callable[[Row], str | None] = lambda _item: None,
) -> str:
    """Return the SVG. ``name`` and ``value`` are keys of the items; ``text`` formats a value."""
    height = _ROW * max(1, len(items)) + 6
    drawing = Drawing(_WIDTH, height, title=title, description=f"A bar for each {name}, as long as its {value}")
    scale = Scale(0, max((_value(item, value) for item in items), default=0), _LABELS, _WIDTH - _VALUES)
    for number, item in enumerate(items):
        top, size = number * _ROW, _value(item, value)
        label = str(item[name])
        with drawing.mark(item, tip=f"{label}: {text(size)}", url=url(item)):
            short = label if len(label) <= _LONGEST_NAME else label[: _LONGEST_NAME - 1] + "…"
            drawing.text(_LABELS - 8, top + 16, short, anchor="end")
            drawing.rect(_LABELS, top + 3, max(1, scale.at(size) - _LABELS), _ROW - 6, "time")
            drawing.text(scale.at(size) + 6, top + 16, text(size), style="faint")
    return drawing.svg()


def _value(item: Row, key: str) -> int:
    value = item[key]
    return value if isinstance(value, int) else 0
