"""The transactions of a log: a lane for each producer, a bar from the first to the last offset of each transaction.

Everything from the last stable offset on is shaded: a read_committed consumer does not get it yet.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.web.page import Row
from tidelog.web.svg.legend_row import Swatch
from tidelog.web.svg.offset_lanes import BAR, OffsetLanes

_LEGEND = (
    Swatch("clean", "plain", "committed"),
    Swatch("deletes", "crosses", "aborted"),
    Swatch("open", "slash", "open"),
    Swatch("size", "grid", "several"),
    Swatch("soft", "dots", "behind the stable offset"),
)


def draw_transactions(
    items: Sequence[Row],
    marks: Sequence[Row],
    *,
    lanes: Sequence[str],
    start: int,
    end: int,
    held_from: int | None,
    url: Callable[[Row], str | None],
) -> str:
    """Return the SVG. An item has ``lane`` (a number), offsets, and the counts ``open``, ``committed`` and ``aborted``.
    ``marks`` have ``mark`` and ``offset``."""
    picture = OffsetLanes(
        title="Transactions",
        description="A lane for each producer, and a bar over the offsets of each transaction",
        labels=lanes,
        start=start,
        end=end,
    )
    picture.legend(_LEGEND)
    if held_from is not None and held_from < end:
        picture.shade(max(held_from, start), "soft", "dots")
    for item in items:
        lane, first, last = (int(str(item[name])) for name in ("lane", "first_offset", "last_offset"))
        left, width = picture.span(max(first, start), min(last, end - 1))
        fill, pattern, text = _look(item)
        tip = f"producer {item['producer_id']}: {text}, offsets {first:,} to {last:,}"
        with picture.drawing.mark(item, tip=tip, url=url(item)):
            picture.drawing.rect(left, picture.top(lane), width, BAR, fill, pattern=pattern)
    for level, item in enumerate(marks):
        stroke = {"last stable offset": "open", "high watermark": "watermark"}.get(str(item["mark"]), "ink")
        picture.mark(item, stroke, level=level)
    return picture.drawing.svg()


def _look(item: Row) -> tuple[str, str, str]:
    counts = {name: int(str(item[name])) for name in ("open", "committed", "aborted")}
    text = ", ".join(f"{count:,} {name}" for name, count in counts.items() if count)
    kinds = [name for name, count in counts.items() if count]
    if len(kinds) != 1:
        return "size", "grid", text
    look = {"open": ("open", "slash"), "committed": ("clean", "plain"), "aborted": ("deletes", "crosses")}[kinds[0]]
    return *look, text
