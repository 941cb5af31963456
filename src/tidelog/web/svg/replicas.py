"""Replicas side by side: a bar for each replica over the common axis of offsets.

A bar reaches from the log start to the log end. Its bands are leader epochs, so equal epochs stand above each other.
The checkpointed high watermark is a line, and the first difference a flag with a dashed line. The records that the
replica would truncate to follow the reference have crosses.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.web.page import Row
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.scale import Scale

_WIDTH, _LABELS, _RIGHT, _TOP, _ROW, _BAR = 980, 190, 24, 44, 72, 24
_LONGEST_NAME: Final = 24
_LEAST: Final = 3.0
_CHARACTER: Final = 7.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaLane:
    """A replica. ``bar`` has its offsets, ``bands`` its epochs, and ``marks`` its first difference and truncation."""

    title: str
    subtitle: str
    bar: Row
    bands: Sequence[Row]
    marks: Sequence[Row]

    def in_turn(self) -> list[Row]:
        """Return the items as they are drawn, from the lowest to the highest one."""
        truncations = [mark for mark in self.marks if mark["mark"] == "truncation"]
        return [*self.bands, *truncations, self.bar, *(mark for mark in self.marks if mark not in truncations)]


def draw_replicas(
    lanes: Sequence[ReplicaLane],
    *,
    start: int,
    end: int,
    tip: Callable[[Row], str],
    url: Callable[[Row], str | None],
) -> str:
    """Return the SVG of the offsets in ``[start, end)``."""
    bottom = _TOP + _ROW * max(1, len(lanes))
    drawing = Drawing(
        _WIDTH,
        bottom + 24,
        title="Replicas side by side",
        description="A bar for each replica from its log start to its log end, with its leader epochs as bands",
    )
    scale = Scale(start, max(end, start + 1), _LABELS, _WIDTH - _RIGHT)
    _draw_legend(drawing)
    _draw_axis(drawing, scale, bottom)
    for number, lane in enumerate(lanes):
        _draw_lane(drawing, scale, lane, _TOP + _ROW * number + 14, tip, url)
    return drawing.svg()


def _draw_legend(drawing: Drawing) -> None:
    x = float(_LABELS)
    drawing.rect(x, 6, 14, 14, "band-a")
    drawing.rect(x + 14, 6, 14, 14, "band-b")
    drawing.text(x + 34, 17, "leader epochs in turn")
    x += 180
    drawing.path(f"M{x:.1f} 4v18", "watermark")
    drawing.text(x + 8, 17, "high watermark")
    x += 130
    drawing.rect(x, 6, 28, 14, "deletes", pattern="crosses")
    drawing.text(x + 34, 17, "would be truncated")
    x += 170
    drawing.path(f"M{x:.1f} 4v18M{x:.1f} 4l10 4l-10 4z", "deletes", fill="deletes")
    drawing.text(x + 16, 17, "first difference")


def _draw_axis(drawing: Drawing, scale: Scale, bottom: int) -> None:
    drawing.line(_LABELS, bottom, _WIDTH - _RIGHT, bottom)
    for tick in scale.ticks(6):
        x = scale.at(tick)
        drawing.line(x, _TOP, x, bottom + 4, "grid")
        drawing.tick_text(x, bottom + 18, f"{tick:,.0f}")


def _draw_lane(
    drawing: Drawing,
    scale: Scale,
    lane: ReplicaLane,
    top: float,
    tip: Callable[[Row], str],
    url: Callable[[Row], str | None],
) -> None:
    name = lane.title if len(lane.title) <= _LONGEST_NAME else "…" + lane.title[1 - _LONGEST_NAME :]
    drawing.text(_LABELS - 10, top + 10, name, anchor="end")
    drawing.text(_LABELS - 10, top + 25, lane.subtitle, anchor="end", style="faint")
    for item in lane.in_turn():
        with drawing.mark(item, tip=tip(item), url=url(item)):
            if "epoch" in item:
                _draw_band(drawing, scale, item, top)
            elif "mark" not in item:
                _draw_bar(drawing, scale, item, top)
            elif item["mark"] == "truncation":
                left, right = _span(scale, item)
                drawing.rect(left, top + _BAR / 2, right - left, _BAR / 2, "deletes", pattern="crosses")
            elif scale.low <= _int(item["offset"]) <= scale.high:
                x = scale.at(_int(item["offset"]))
                drawing.line(x, top - 12, x, top + _BAR + 6, "deletes", dashed=True)
                drawing.path(f"M{x:.1f} {top - 13}l12 5l-12 5z", "deletes", fill="deletes")


def _draw_band(drawing: Drawing, scale: Scale, band: Row, top: float) -> None:
    left, right = _span(scale, band)
    drawing.rect(left, top, right - left, _BAR, "band-a" if band["is_even"] else "band-b")
    drawing.line(left, top, left, top + _BAR, "grid")
    text = f"epoch {band['epoch']}" if band["epochs"] == 1 else f"{band['epochs']} epochs"
    if right - left >= _CHARACTER * len(text) + 8:
        drawing.text(left + 5, top + 11, text, style="label")


def _draw_bar(drawing: Drawing, scale: Scale, bar: Row, top: float) -> None:
    """Draw the outline, the high watermark and the offsets of a replica."""
    start, end, watermark = _int(bar["log_start"]), _int(bar["log_end"]), bar["high_watermark"]
    left, right = scale.at(start), scale.at(end)
    width = max(_LEAST, right - left)
    drawing.path(f"M{left:.1f} {top}h{width:.1f}v{_BAR}h-{width:.1f}z", "ink")
    begin_text, end_text = f"start {start:,}", f"end {end:,}"
    if scale.low <= start and right - left >= _CHARACTER * (len(begin_text) + len(end_text)) + 12:
        drawing.text(left, top + _BAR + 14, begin_text, style="faint")
    drawing.text(max(right, _LABELS + _CHARACTER * len(end_text)), top + _BAR + 14, end_text, anchor="end")
    if isinstance(watermark, int) and scale.low <= watermark <= scale.high:
        x = scale.at(watermark)
        drawing.path(f"M{x:.1f} {top - 5}v{_BAR + 10}", "watermark")
        is_right = x > _WIDTH / 2
        anchor = "end" if is_right else "start"
        drawing.text(x - 6 if is_right else x + 6, top - 3, f"HW {watermark:,}", anchor=anchor)


def _span(scale: Scale, item: Row) -> tuple[float, float]:
    left = scale.at(_int(item["start"]))
    return left, max(left + 1, scale.at(_int(item["end"])))


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
