"""The density of a segment's indexes over the positions of its ``.log``.

::

    gaps        bars: the bytes between two entries of the .index, with a line at index.interval.bytes
    .index      a tick for each entry
    .log        the bytes of valid batches, then bytes after them
    .timeindex  a tick for each entry
    files       the used and the preallocated part of both index files
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

from tidelog.web.page import Row
from tidelog.web.shown import size_text
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.scale import Scale

LOG, DAMAGE, TAIL, GAP, INDEX, TIME, FILE = "log", "damage", "tail", "gap", "index", "time", "file"
"""The kinds of items."""
Url = Callable[[Row], str | None]
_WIDTH: Final = 980
_LEFT, _RIGHT = 96, 964
_GAPS_TOP, _GAPS_BOTTOM = 34, 114
_INDEX_TOP, _INDEX_BOTTOM = 122, 140
_LOG_TOP, _LOG_BOTTOM = 144, 164
_TIME_TOP, _TIME_BOTTOM = 168, 186
_AXIS = 192
_HALF_LABEL = 30
_FILES_TOP, _FILE_ROW = 232, 24


def draw_index_density(
    items: Sequence[Row], *, size: int, interval_bytes: int, url: Callable[[Row], str | None]
) -> str:
    """Return the SVG. ``size`` is that of the ``.log`` in bytes."""
    files = [item for item in items if item["kind"] == FILE]
    drawing = Drawing(
        _WIDTH,
        _FILES_TOP + _FILE_ROW * len(files) + 4,
        title="Index density",
        description="The positions of index entries along the .log, and the gaps between them",
    )
    across = Scale(0, max(size, 1), _LEFT, _RIGHT)
    highest = max([_int(item, "largest_gap") for item in items if item["kind"] == GAP] + [2 * interval_bytes, 1])
    up = Scale(0, highest, _GAPS_BOTTOM, _GAPS_TOP)
    _draw_frame(drawing, across)
    for item in items:
        match item["kind"]:
            case "gap":
                _draw_gap(drawing, item, across, up, url)
            case "file":
                pass
            case _:
                _draw_range(drawing, item, across, url)
    level = up.at(interval_bytes)
    drawing.line(_LEFT, level, _RIGHT, level, "ink", dashed=True)
    drawing.text(_LEFT - 10, level + 4, size_text(interval_bytes), anchor="end", style="faint")
    for number, item in enumerate(files):
        _draw_file(drawing, item, _FILES_TOP + number * _FILE_ROW)
    return drawing.svg()


def _draw_frame(drawing: Drawing, across: Scale) -> None:
    drawing.rect(_LEFT, 8, 12, 12, "time")
    drawing.text(_LEFT + 18, 18, "gap between entries")
    drawing.rect(_LEFT + 160, 8, 12, 12, "deletes", pattern="crosses")
    drawing.text(_LEFT + 178, 18, "wide gap")
    drawing.rect(_LEFT + 260, 8, 12, 12, "soft")
    drawing.text(_LEFT + 278, 18, "batches")
    drawing.rect(_LEFT + 350, 8, 12, 12, "deletes", pattern="grid")
    drawing.text(_LEFT + 368, 18, "damage")
    drawing.rect(_LEFT + 440, 8, 12, 12, "waits", pattern="slash")
    drawing.text(_LEFT + 458, 18, "bytes after the last valid batch")
    drawing.rect(_LEFT + 660, 8, 12, 12, "band-a", pattern="dots")
    drawing.text(_LEFT + 678, 18, "preallocated")
    labels = (
        (_GAPS_TOP + 12, "gaps"),
        (_INDEX_BOTTOM - 5, ".index"),
        (_LOG_BOTTOM - 6, ".log"),
        (_TIME_BOTTOM - 5, ".timeindex"),
    )
    for y, text in labels:
        drawing.text(_LEFT - 10, y, text, anchor="end")
    drawing.line(_LEFT, _GAPS_BOTTOM, _RIGHT, _GAPS_BOTTOM, "grid")
    drawing.line(_LEFT, _AXIS, _RIGHT, _AXIS, "axis")
    step = 1 << max(0, math.ceil(math.log2(max(1, across.high / 8))))
    for tick in range(0, int(across.high) + 1, step):
        x = across.at(tick)
        drawing.line(x, _AXIS, x, _AXIS + 5, "axis")
        is_last = x > _RIGHT - _HALF_LABEL
        drawing.text(x, _AXIS + 18, size_text(tick), anchor="end" if is_last else "middle", style="faint")


def _draw_gap(drawing: Drawing, item: Row, across: Scale, up: Scale, url: Url) -> None:
    left, right = across.at(_int(item, "from")), across.at(_int(item, "to"))
    largest = _int(item, "largest_gap")
    count = _int(item, "gaps")
    tip = f"{count:,} gaps of at most {largest:,} bytes" if count > 1 else f"a gap of {largest:,} bytes"
    with drawing.mark(item, tip=f"{tip} from position {_int(item, 'from'):,}", url=url(item)):
        fill, pattern = ("deletes", "crosses") if item["is_wide"] else ("time", "plain")
        top = up.at(largest)
        drawing.rect(left, top, max(0.8, right - left - 0.6), _GAPS_BOTTOM - top, fill, pattern=pattern)


def _draw_range(drawing: Drawing, item: Row, across: Scale, url: Url) -> None:
    left, right = across.at(_int(item, "from")), across.at(_int(item, "to"))
    first = f"position {_int(item, 'from'):,}"
    match item["kind"]:
        case "index":
            count = _int(item, "entries")
            tip = (
                f"{count:,} entries from {first}" if count > 1 else f"offset {_int(item, 'first_offset'):,} at {first}"
            )
            place = (left, _INDEX_TOP, max(1.2, right - left), _INDEX_BOTTOM - _INDEX_TOP, "ink", "plain")
        case "time":
            count = _int(item, "entries")
            tip = f"{count:,} time entries near {first}"
            place = (left, _TIME_TOP, max(1.2, right - left), _TIME_BOTTOM - _TIME_TOP, "ink", "plain")
        case "damage":
            tip = f"{_int(item, 'to') - _int(item, 'from'):,} bytes that cannot be read: {item['reason']}"
            place = (left, _LOG_TOP, max(3.0, right - left), _LOG_BOTTOM - _LOG_TOP, "deletes", "grid")
        case "tail":
            tip = f"{_int(item, 'to') - _int(item, 'from'):,} bytes after the last valid batch"
            place = (left, _LOG_TOP, max(2.0, right - left), _LOG_BOTTOM - _LOG_TOP, "waits", "slash")
        case _:
            tip = f"{_int(item, 'to') - _int(item, 'from'):,} bytes of batches"
            place = (left, _LOG_TOP, max(1.0, right - left), _LOG_BOTTOM - _LOG_TOP, "soft", "plain")
    with drawing.mark(item, tip=tip, url=url(item)):
        x, y, width, height, fill, pattern = place
        drawing.rect(x, y, width, height, fill, pattern=pattern)


def _draw_file(drawing: Drawing, item: Row, top: float) -> None:
    used, size = _int(item, "used"), _int(item, "size")
    along = Scale(0, max(size, 1), _LEFT, _RIGHT - 260)
    tip = f"{item['file']}: {used:,} of {size:,} bytes are used"
    with drawing.mark(item, tip=tip):
        drawing.text(_LEFT - 10, top + 13, str(item["file"]), anchor="end")
        if size > used:
            drawing.rect(along.at(used), top, along.at(size) - along.at(used), 16, "band-a", pattern="dots")
        drawing.rect(_LEFT, top, max(1.0, along.at(used) - _LEFT), 16, "time")
        text = f"{size_text(used)} used of {size_text(size)}" if size > used else f"{size_text(used)}, all used"
        drawing.text(along.at(size) + 8, top + 13, text, style="faint")


def _int(item: Row, key: str) -> int:
    value = item[key]
    return value if isinstance(value, int) else 0
