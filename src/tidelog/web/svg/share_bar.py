"""A bar of shares: the parts of a whole side by side, with a legend that has the value of each part."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.web.page import Row
from tidelog.web.svg.drawing import Drawing

_WIDTH, _BAR, _GAP, _LINE = 900, 34, 12, 20
_LEAST = 2
"""The width of the smallest part, so that it can be seen."""


@dataclass(frozen=True, slots=True)
class Look:
    """The fill class and the pattern of a part."""

    fill: str
    pattern: str = "plain"


def draw_shares(
    items: Sequence[Row],
    looks: Mapping[str, Look],
    *,
    title: str,
    name: str,
    value: str,
    text: Callable[[int], str] = lambda number: f"{number:,}",
) -> str:
    """Return the SVG of items with the keys ``name`` and ``value``; ``looks`` has the look of each name."""
    values = [_value(item, value) for item in items]
    total, shown = sum(values), sum(size > 0 for size in values)
    drawing = Drawing(
        _WIDTH, _BAR + _GAP + _LINE * len(items), title=title, description=f"The parts of {text(total)} side by side"
    )
    free, left = _WIDTH - _LEAST * shown, 0.0
    for number, (item, size) in enumerate(zip(items, values, strict=True)):
        look = looks[str(item[name])]
        share = size / total if total else 0.0
        label = f"{str(item[name]).replace('_', ' ')}: {text(size)} ({share:.1%})"
        with drawing.mark(item, tip=label):
            if size:
                width = _LEAST + free * share
                drawing.rect(left, 0, width, _BAR, look.fill, pattern=look.pattern)
                left += width
            line = _BAR + _GAP + _LINE * number
            drawing.rect(0, line, 16, 13, look.fill, pattern=look.pattern)
            drawing.text(24, line + 11, label)
    return drawing.svg()


def _value(item: Row, key: str) -> int:
    value = item[key]
    return value if isinstance(value, int) else 0
