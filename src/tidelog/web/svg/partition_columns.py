"""The sizes of a topic's partitions as columns next to each other, so that a skew is visible.

Beyond a few hundred partitions, a column is a run of them: it is as high as the largest one, and a line in it is
their mean. The dashed line is the mean of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.web.page import Row
from tidelog.web.shown import size_text
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.scale import Scale

_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 940, 220, 90, 925, 16, 180
_WIDEST, _MOST_LABELS = 48, 16


def draw_partition_columns(items: Sequence[Row], *, mean: float, url: Callable[[Row], str | None]) -> str:
    """Return the SVG. An item has ``first`` and ``last`` (partitions), ``partitions``, ``bytes`` and ``largest``."""
    drawing = Drawing(
        _WIDTH,
        _HEIGHT,
        title="Partition sizes",
        description="A column for each partition, as high as the bytes of its largest replica; the line is the mean",
    )
    top = max((int(str(item["largest"])) for item in items), default=0)
    sizes = Scale(0, max(1, top), _BOTTOM, _TOP)
    for size in sizes.size_ticks():
        drawing.line(_LEFT, sizes.at(size), _RIGHT, sizes.at(size), "grid")
        drawing.text(_LEFT - 8, sizes.at(size) + 4, size_text(round(size)), anchor="end", style="faint")
    step = min(_WIDEST, (_RIGHT - _LEFT) / max(1, len(items)))
    every = -(-len(items) // _MOST_LABELS)
    for number, item in enumerate(items):
        left = _LEFT + number * step
        _draw_column(drawing, sizes, item, left, max(0.5, step - min(3, step / 4)), url(item))
        if number % every == 0:
            drawing.text(left + step / 2 - 1, _BOTTOM + 16, f"{item['first']}", anchor="middle", style="faint")
    drawing.line(_LEFT, sizes.at(mean), _LEFT + step * len(items), sizes.at(mean), "ink", dashed=True)
    drawing.text(_LEFT, _HEIGHT - 6, f"partition; the dashed line is the mean, {size_text(round(mean))}", style="faint")
    return drawing.svg()


def _draw_column(drawing: Drawing, sizes: Scale, item: Row, left: float, width: float, url: str | None) -> None:
    largest, count = int(str(item["largest"])), int(str(item["partitions"]))
    name = f"partition {item['first']}" if count == 1 else f"partitions {item['first']} to {item['last']}, the largest"
    top = sizes.at(largest)
    with drawing.mark(item, tip=f"{name}: {size_text(largest)}", url=url):
        drawing.rect(left, top, width, max(1, _BOTTOM - top), "time", pattern="plain" if count == 1 else "columns")
        if count > 1:
            mean = sizes.at(int(str(item["bytes"])) / count)
            drawing.line(left, mean, left + width, mean, "ink")
