"""The positions of a group: a bar for each partition, from its log start to its log end, with a mark at the offset.

Each bar has a scale of its own, because logs differ by orders of magnitude. The part before the mark is consumed, and
the part after it is the lag.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.web.page import Row
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.scale import Scale

_WIDTH, _LEFT, _RIGHT, _ROW, _TOP = 940, 320, 780, 24, 30
_LONGEST_NAME = 32


def draw_lag(items: Sequence[Row], *, title: str, url: Callable[[Row], str | None]) -> str:
    """Return the SVG. An item has ``partition``, ``log_start``, ``log_end``, ``offset`` and ``lag``."""
    drawing = Drawing(
        _WIDTH,
        _TOP + _ROW * len(items) + 4,
        title=title,
        description="A bar for each partition from the log start to the log end, with a mark at the group's offset",
    )
    _legend(drawing)
    for number, item in enumerate(items):
        top = _TOP + number * _ROW
        name, start, end, offset, lag = _values(item)
        tip = f"{name}: offset {offset:,} of {start:,} to {end:,}, lag {lag:,}"
        with drawing.mark(item, tip=tip, url=url(item)):
            short = name if len(name) <= _LONGEST_NAME else name[: _LONGEST_NAME - 1] + "…"
            drawing.text(_LEFT - 96, top + 16, short, anchor="end")
            drawing.text(_LEFT - 8, top + 16, f"{start:,}", anchor="end", style="faint")
            _bar(drawing, Scale(start, end, _LEFT, _RIGHT), top + 4, offset)
            drawing.text(_RIGHT + 8, top + 16, f"{end:,}", style="faint")
            drawing.text(_WIDTH - 4, top + 16, f"lag {lag:,}", anchor="end")
    return drawing.svg()


def _bar(drawing: Drawing, scale: Scale, top: float, offset: int) -> None:
    at = scale.at(offset)
    if scale.high <= scale.low:
        drawing.rect(_LEFT, top, _RIGHT - _LEFT, 16, "soft")
        drawing.text((_LEFT + _RIGHT) / 2, top + 12, "no records", anchor="middle", style="faint")
        return
    if at > _LEFT:
        drawing.rect(_LEFT, top, at - _LEFT, 16, "clean")
    if at < _RIGHT:
        drawing.rect(at, top, _RIGHT - at, 16, "dirty", pattern="slash")
    drawing.line(at, top - 3, at, top + 19, "ink")
    if offset < scale.low:
        drawing.path(f"M{at - 2:.1f} {top + 8}l8 -5v10z", "ink", fill="ink")
    elif offset > scale.high:
        drawing.path(f"M{at + 2:.1f} {top + 8}l-8 -5v10z", "ink", fill="ink")


def _legend(drawing: Drawing) -> None:
    drawing.rect(_LEFT, 6, 14, 12, "clean")
    drawing.text(_LEFT + 20, 16, "consumed", style="faint")
    drawing.rect(_LEFT + 100, 6, 14, 12, "dirty", pattern="slash")
    drawing.text(_LEFT + 120, 16, "lag", style="faint")
    drawing.line(_LEFT + 165, 3, _LEFT + 165, 21, "ink")
    drawing.text(_LEFT + 172, 16, "the group's offset", style="faint")
    drawing.path(f"M{_LEFT + 300} 12l8 -5v10z", "ink", fill="ink")
    drawing.text(_LEFT + 314, 16, "outside of the log", style="faint")


def _values(item: Row) -> tuple[str, int, int, int, int]:
    start, end, offset, lag = (int(str(item[name])) for name in ("log_start", "log_end", "offset", "lag"))
    return str(item["partition"]), start, end, offset, lag
