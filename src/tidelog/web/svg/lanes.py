"""The batches of a log by producer: a lane for each producer, a block for each batch or run of batches.

Transaction markers are ticks below the blocks; the tick of an abort reaches through the lane. The letter G names a gap
in the sequence, and E an epoch bump.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.web.page import Row
from tidelog.web.svg.legend_row import Swatch
from tidelog.web.svg.offset_lanes import BAR, OffsetLanes

_LEGEND = (
    Swatch("time", "plain", "data"),
    Swatch("size", "slash", "transactional"),
    Swatch("clean", "plain", "commit marker"),
    Swatch("deletes", "crosses", "abort marker (higher)"),
    Swatch("waits", "columns", "G gap in the sequence"),
    Swatch("ink", "plain", "E epoch bump"),
)
_LETTER_WIDTH = 9.0
_TICK = 5


def draw_lanes(
    items: Sequence[Row], *, lanes: Sequence[str], start: int, end: int, url: Callable[[Row], str | None]
) -> str:
    """Return the SVG. An item has ``lane`` (a number), offsets, ``batches``, and the counts of its events."""
    picture = OffsetLanes(
        title="Batches by producer",
        description="A lane for each producer, and a block over the offsets of each batch or run of batches",
        labels=lanes,
        start=start,
        end=end,
    )
    picture.legend(_LEGEND)
    for item in items:
        lane, first, last = (int(str(item[name])) for name in ("lane", "first_offset", "last_offset"))
        left, width = picture.span(max(first, start), min(last, end - 1))
        with picture.drawing.mark(item, tip=_tip(item), url=url(item)):
            top = picture.top(lane)
            if item["data"]:
                fill, pattern = ("size", "slash") if item["transactional"] else ("time", "plain")
                picture.drawing.rect(left, top, width, BAR, fill, pattern=pattern)
            else:
                _tick(picture, item, left, top, width)
            _events(picture, item, left, top, width)
    return picture.drawing.svg()


def _tick(picture: OffsetLanes, item: Row, left: float, top: float, width: float) -> None:
    """Draw a marker, or a run of markers."""
    if item["batches"] == 1 and item["aborts"]:
        picture.drawing.rect(left, top - 3, width, BAR + _TICK + 3, "deletes", pattern="crosses")
        return
    look = ("clean", "plain")
    if item["aborts"]:
        look = ("size", "grid") if item["commits"] else ("deletes", "crosses")
    picture.drawing.rect(left, top + BAR + 1, width, _TICK, look[0], pattern=look[1])


def _events(picture: OffsetLanes, item: Row, left: float, top: float, width: float) -> None:
    """Draw the gaps and the epoch bumps of a block."""
    if item["gaps"]:
        picture.drawing.rect(left, top, 3, BAR, "waits", pattern="columns")
    if item["epoch_bumps"]:
        picture.drawing.rect(left, top - 3, 2, BAR + 4, "ink")
    letters = "".join(letter for name, letter in (("gaps", "G"), ("epoch_bumps", "E")) if item[name])
    if letters and item["data"] and width >= _LETTER_WIDTH * len(letters):
        picture.drawing.text(left + 5, top + 11, letters, style="on-fill")


def _tip(item: Row) -> str:
    first, last, batches = (int(str(item[name])) for name in ("first_offset", "last_offset", "batches"))
    events = [
        f"{item[name]} {text}"
        for name, text in (
            ("commits", "commit markers"),
            ("aborts", "abort markers"),
            ("gaps", "gaps in the sequence"),
            ("epoch_bumps", "epoch bumps"),
        )
        if item[name]
    ]
    which = f"producer {item['producer_id']}" if item["producer_id"] != -1 else "no producer"
    return f"{which}: {batches:,} batches, offsets {first:,} to {last:,}" + "".join(f", {event}" for event in events)
