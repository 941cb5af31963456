"""A timeline: a row for each kind of item, with runs of records along an axis of times or offsets.

Marks stand above the rows: a line through all rows for an epoch, and a triangle for a snapshot. A run is a bar from its
first to its last record, with the number of records in it. A bar with crosses has removals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from tidelog.web.page import Row
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.scale import Scale
from tidelog.web.svg.time_axis import time_ticks

_WIDTH, _LABELS, _RIGHT, _TOP, _ROW = 980, 120, 24, 46, 30
_CHARACTER: Final = 6.6
_FILLS: Final[Mapping[str, str]] = {
    "topics": "active",
    "partitions": "time",
    "configs": "size",
    "brokers": "waits",
    "security": "future",
    "quotas": "forever",
    "quorum": "watermark",
}


def draw_timeline(
    runs: Sequence[Row],
    marks: Sequence[Row],
    *,
    kinds: Sequence[str],
    by_time: bool,
    tip: Callable[[Row], str],
    url: Callable[[Row], str | None],
) -> str:
    """Return the SVG. Runs have ``kind``, ``records``, ``removals`` and the axis's keys. Marks have ``mark``, which
    is ``epoch`` or ``snapshot``, and a ``label``."""
    first, last, at = ("start_ms", "end_ms", "time_ms") if by_time else ("first_offset", "last_offset", "offset")
    ends = [_int(run[first]) for run in runs] + [_int(mark[at]) for mark in marks]
    low, high = min(ends, default=0), max([*(_int(run[last]) for run in runs), *ends], default=0)
    scale = Scale(low, high, _LABELS + 12, _WIDTH - _RIGHT)
    bottom = _TOP + _ROW * len(kinds)
    drawing = Drawing(
        _WIDTH,
        bottom + 26,
        title="Timeline of the metadata log",
        description=f"A row for each kind of change along the {'time' if by_time else 'offset'} axis",
    )
    _draw_axis(drawing, scale, kinds, bottom, by_time=by_time)
    for kind in ("epoch", "snapshot"):
        own = [(mark, scale.at(_int(mark[at]))) for mark in marks if mark["mark"] == kind]
        for number, (mark, x) in enumerate(own):
            end = own[number + 1][1] if number + 1 < len(own) else _WIDTH
            _draw_mark(drawing, mark, x, end, bottom, tip(mark), url(mark))
    for run in runs:
        top = _TOP + _ROW * kinds.index(str(run["kind"]))
        _draw_run(drawing, run, scale.at(_int(run[first])), scale.at(_int(run[last])), top, tip(run), url(run))
    return drawing.svg()


def _draw_axis(drawing: Drawing, scale: Scale, kinds: Sequence[str], bottom: int, *, by_time: bool) -> None:
    for number, kind in enumerate(kinds):
        top = _TOP + _ROW * number
        if number % 2 == 0:
            drawing.rect(0, top, _WIDTH, _ROW, "row")
        drawing.text(_LABELS - 8, top + _ROW / 2 + 4, kind, anchor="end")
    drawing.line(_LABELS, bottom, _WIDTH, bottom)
    ticks = time_ticks(scale.low, scale.high) if by_time else [(tick, f"{tick:,.0f}") for tick in scale.ticks(8)]
    for value, text in ticks:
        x = scale.at(value)
        drawing.line(x, _TOP, x, bottom + 5, "grid")
        drawing.tick_text(x, bottom + 19, text)


def _draw_mark(drawing: Drawing, mark: Row, x: float, room: float, bottom: int, tip: str, url: str | None) -> None:
    """Draw a mark, and its label if that ends before ``room``, where the next mark of its kind stands."""
    is_epoch = mark["mark"] == "epoch"
    with drawing.mark(mark, tip=tip, url=url):
        if is_epoch:
            drawing.line(x, 20, x, bottom, "watermark", dashed=True)
            drawing.circle(x, 20, 4, "watermark")
        else:
            drawing.path(f"M{x:.1f} {_TOP - 2}l-6 -10h12z", "axis", fill="forever")
        text = str(mark["label"])
        if x + 14 + _CHARACTER * len(text) <= room:
            drawing.text(x + 8, 16 if is_epoch else 42, text, style="faint")


def _draw_run(drawing: Drawing, run: Row, start: float, end: float, top: float, tip: str, url: str | None) -> None:
    records, removals = _int(run["records"]), _int(run["removals"])
    fill = _FILLS.get(str(run["kind"]), "log-start")
    pattern = "crosses" if removals else "plain"
    middle = top + _ROW / 2
    with drawing.mark(run, tip=tip, url=url):
        if records == 1:
            drawing.circle(start, middle, 5, fill)
            if removals:
                drawing.path(f"M{start - 3:.1f} {middle - 3:.1f}l6 6m0 -6l-6 6", "ink")
            return
        half = 5 + min(5, math.log10(records) * 2)
        left, width = start - 5, max(10, end - start + 10)
        drawing.rect(left, middle - half, width, 2 * half, fill, pattern=pattern)
        text = f"{records:,}"
        if width >= 8 * len(text) + 8:
            x = left + width / 2
            drawing.rect(x - 4 * len(text) - 2, middle - 7, 8 * len(text) + 4, 14, "ground")
            drawing.text(x, middle + 4, text, anchor="middle", style="label")


def _int(value: object) -> int:
    return value if isinstance(value, int) else 0
