"""Damage maps: a bar for each log, as long as the picture, with its segments and the damaged ranges of its bytes.

Each bar has its own scale from the first byte of the log to the last one. A damaged range is at least a few pixels
wide, so that a single byte in a terabyte can be seen.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.web.page import Row
from tidelog.web.shown import size_text
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.scale import Scale

_WIDTH, _LABELS, _RIGHT, _ROW, _BAR, _TOP = 980, 230, 84, 44, 20, 34
_LEAST: Final = 5
_LONGEST_NAME: Final = 32
_STYLES: Final = {"error": ("deletes", "crosses"), "warning": ("waits", "slash"), "note": ("log-start", "dots")}
"""The fill and the pattern of each severity."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DamageLane:
    """A log. Segments have ``start`` and ``end``, damaged ranges have a ``severity`` too; all in bytes of the log."""

    label: str
    bytes: int
    segments: Sequence[Row]
    damage: Sequence[Row]


def draw_damage(lanes: Sequence[DamageLane], *, tip: Callable[[Row], str], url: Callable[[Row], str | None]) -> str:
    """Return the SVG."""
    drawing = Drawing(
        _WIDTH,
        _TOP + _ROW * max(1, len(lanes)),
        title="Damaged ranges",
        description="A bar for each log, as wide as its bytes, with its segments and the ranges that have findings",
    )
    _draw_legend(drawing)
    for number, lane in enumerate(lanes):
        top = _TOP + _ROW * number + 12
        scale = Scale(0, max(1, lane.bytes), _LABELS, _WIDTH - _RIGHT)
        name = lane.label if len(lane.label) <= _LONGEST_NAME else lane.label[: _LONGEST_NAME - 1] + "…"
        drawing.text(_LABELS - 8, top + 15, name, anchor="end")
        drawing.text(_WIDTH - _RIGHT + 8, top + 15, size_text(lane.bytes), style="faint")
        for place, segment in enumerate(lane.segments):
            left, right = scale.at(_int(segment["start"])), scale.at(_int(segment["end"]))
            with drawing.mark(segment, tip=tip(segment), url=url(segment)):
                drawing.rect(left, top, max(0.5, right - left), _BAR, "band-a" if place % 2 == 0 else "band-b")
        for damage in lane.damage:
            left, right = scale.at(_int(damage["start"])), scale.at(_int(damage["end"]))
            fill, pattern = _STYLES[str(damage["severity"])]
            width = max(_LEAST, right - left)
            left = min(left, _WIDTH - _RIGHT - width)
            with drawing.mark(damage, tip=tip(damage), url=url(damage)):
                drawing.rect(left, top - 2, width, _BAR + 4, fill, pattern=pattern)
                middle = left + width / 2
                drawing.path(f"M{middle:.1f} {top - 3}l-4 -7h8z", fill, fill=fill)
    return drawing.svg()


def _draw_legend(drawing: Drawing) -> None:
    x = _LABELS
    for severity, (fill, pattern) in _STYLES.items():
        drawing.rect(x, 4, 22, 14, fill, pattern=pattern)
        drawing.text(x + 28, 15, severity)
        x += 100
    drawing.rect(x, 4, 22, 14, "band-a")
    drawing.rect(x + 22, 4, 22, 14, "band-b")
    drawing.text(x + 50, 15, "segments in turn")


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
