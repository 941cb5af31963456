"""The bar of one log for the cleaner: segments from left to right, as wide as their bytes, and the clean's borders.

Under the bar, a bracket joins the segments that the clean writes into one new segment.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby

from tidelog.inspect.compaction.segment_parts import CleaningPart
from tidelog.web.page import Row
from tidelog.web.shown import size_text
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.legend_row import LEGEND_HEIGHT, Swatch, draw_legend
from tidelog.web.svg.scale import Scale

_WIDTH, _LEFT, _RIGHT = 940, 10, 930
_BAR_TOP, _BAR_HEIGHT, _MOST_ROWS = 72, 44, 4
_BRACKETS = _BAR_TOP + _BAR_HEIGHT + 8
_SWATCHES = {
    CleaningPart.CLEAN: Swatch("clean", "plain", "clean: compacted before"),
    CleaningPart.BOTH: Swatch("clean", "slash", "the last clean ended in it"),
    CleaningPart.DIRTY: Swatch("dirty", "backslash", "dirty: not compacted yet"),
    CleaningPart.UNCLEANABLE: Swatch("soft", "dots", "not cleanable now"),
}


def draw_cleaning_bar(items: Sequence[Row]) -> str:
    """Return the SVG. An item of the kind ``segment`` is a segment or a run of them: ``base_offset``, ``end_offset``,
    ``segments``, ``bytes``, ``part`` and ``groups`` (the first and the last one, or None). An item of the kind
    ``border`` is an offset: ``name``, ``offset`` and ``bytes_before``."""
    drawing = Drawing(
        _WIDTH,
        _BRACKETS + 30 + LEGEND_HEIGHT,
        title="The next clean of the log",
        description="Segments from the oldest to the active one, as wide as their bytes; the lines are offsets",
    )
    segments = [item for item in items if item["kind"] == "segment"]
    scale = Scale(0, max(1, sum(map(_bytes, segments))), _LEFT, _RIGHT)
    spans: list[tuple[Row, float, float]] = []
    position = 0
    for item in segments:
        spans.append((item, scale.at(position), scale.at(position + _bytes(item))))
        position += _bytes(item)
        _draw_segment(drawing, *spans[-1])
    grouped = (span for span in spans if span[0]["groups"] is not None)
    for _, group in groupby(grouped, key=lambda span: span[0]["groups"]):
        members = list(group)
        _draw_bracket(drawing, members[0][0], members[0][1], members[-1][2])
    _draw_borders(drawing, scale, [item for item in items if item["kind"] == "border"])
    used = [_SWATCHES[part] for part in CleaningPart if any(item["part"] == part.value for item in segments)]
    draw_legend(drawing, _LEFT, _BRACKETS + 26, used)
    return drawing.svg()


def _bytes(item: Row) -> int:
    return int(str(item["bytes"]))


def _draw_segment(drawing: Drawing, item: Row, left: float, right: float) -> None:
    swatch = _SWATCHES[CleaningPart(str(item["part"]))]
    count = int(str(item["segments"]))
    what = f"segment {item['base_offset']:,}" if count == 1 else f"{count:,} segments from {item['base_offset']:,} on"
    tip = f"{what}: {size_text(_bytes(item))}, {item['part']}"
    with drawing.mark(item, tip=tip):
        width = max(1.0, right - left - (1 if right - left > 3 else 0))
        drawing.rect(left, _BAR_TOP, width, _BAR_HEIGHT, swatch.fill, pattern=swatch.pattern)


def _draw_bracket(drawing: Drawing, item: Row, left: float, right: float) -> None:
    groups = item["groups"]
    assert isinstance(groups, list)
    drawing.path(f"M{left + 1:.1f} {_BRACKETS - 4}V{_BRACKETS}H{max(left + 2, right - 2):.1f}V{_BRACKETS - 4}", "axis")
    name = f"{groups[0] + 1}" if groups[0] == groups[1] else f"{groups[0] + 1}–{groups[1] + 1}"
    if right - left >= 60:
        drawing.text((left + right) / 2, _BRACKETS + 13, f"new segment {name}", anchor="middle", style="faint")
    elif right - left >= 8 * len(name):
        drawing.text((left + right) / 2, _BRACKETS + 13, name, anchor="middle", style="faint")


def _draw_borders(drawing: Drawing, scale: Scale, borders: Sequence[Row]) -> None:
    """Draw the lines from the left to the right. Labels in the left half extend to the right, so that later lines must
    be shorter than earlier ones; in the right half it is the other way round."""
    middle = (_LEFT + _RIGHT) / 2
    places = [(scale.at(int(str(border["bytes_before"]))), border) for border in borders]
    left = sum(x < middle for x, _ in places)
    for number, (x, border) in enumerate(places):
        row = number if number < left else len(places) - 1 - number
        base = _BAR_TOP - 8 - 16 * (_MOST_ROWS - 1 - row % _MOST_ROWS)
        text = f"{border['name']} {border['offset']:,}, after {size_text(int(str(border['bytes_before'])))}"
        with drawing.mark(border, tip=text):
            drawing.line(x, base, x, _BAR_TOP + _BAR_HEIGHT, "ink", dashed=True)
            drawing.text(x + 4 if x < middle else x - 4, base, text, anchor="start" if x < middle else "end")
