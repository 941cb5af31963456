"""The bytes that retention frees, added up over time: a staircase from now to the end of a horizon."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.inspect.durations import duration_text
from tidelog.web.page import Row
from tidelog.web.shown import size_text, time_text
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.scale import Scale

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 940, 250, 90, 925, 18, 205
_UNITS_MS = (86_400_000, 3_600_000, 60_000, 1000)


def draw_freed_bytes(items: Sequence[Row], *, now_ms: int, horizon_ms: int) -> str:
    """Return the SVG. An item has ``at`` (ms), ``bytes`` that are freed then, ``segments`` and ``total`` (bytes)."""
    drawing = Drawing(
        _WIDTH,
        _HEIGHT,
        title="Bytes freed by time",
        description="Each step is a deletion; its height is the bytes that it frees, if nothing is appended",
    )
    total = max((int(str(item["total"])) for item in items), default=0)
    times, sizes = Scale(now_ms, now_ms + horizon_ms, _LEFT, _RIGHT), Scale(0, max(1, total), _BOTTOM, _TOP)
    _draw_axes(drawing, times, sizes)
    before = 0
    for number, item in enumerate(items):
        at, after = int(str(item["at"])), int(str(item["total"]))
        following = int(str(items[number + 1]["at"])) if number + 1 < len(items) else now_ms + horizon_ms
        left, right = times.at(at), times.at(following)
        tip = (
            f"{time_text(at)}: {size_text(int(str(item['bytes'])))} of {item['segments']:,} segments, in all"
            f" {size_text(after)}"
        )
        with drawing.mark(item, tip=tip):
            drawing.rect(
                left, sizes.at(after), max(0.5, right - left), _BOTTOM - sizes.at(after), "time", pattern="rows"
            )
            drawing.line(left, sizes.at(before), left, sizes.at(after), "ink")
            drawing.line(left, sizes.at(after), right, sizes.at(after), "ink")
        before = after
    drawing.line(_LEFT, _BOTTOM, _RIGHT, _BOTTOM, "axis")
    return drawing.svg()


def _draw_axes(drawing: Drawing, times: Scale, sizes: Scale) -> None:
    for size in sizes.size_ticks():
        drawing.line(_LEFT, sizes.at(size), _RIGHT, sizes.at(size), "grid")
        drawing.text(_LEFT - 8, sizes.at(size) + 4, size_text(round(size)), anchor="end", style="faint")
    span = int(times.high - times.low)
    for after in _time_ticks(span):
        x = times.at(times.low + after)
        drawing.line(x, _TOP, x, _BOTTOM + 4, "grid")
        text = "now" if after == 0 else f"in {duration_text(after)}"
        anchor = "start" if after == 0 else "end" if x > _RIGHT - 30 else "middle"
        drawing.text(x, _BOTTOM + 18, text, anchor=anchor, style="faint")


def _time_ticks(span_ms: int) -> list[int]:
    """Return about seven moments after now, in whole units of time."""
    unit = next((unit for unit in _UNITS_MS if span_ms >= 2 * unit), 1)
    step = unit * max(1, round(span_ms / unit / 7))
    return list(range(0, span_ms + 1, step))
