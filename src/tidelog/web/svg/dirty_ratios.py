"""The dirty ratios of compacted logs as bars from 0 to 1, with each log's threshold as a line."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.web.page import Row
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.legend_row import LEGEND_HEIGHT, Swatch, draw_legend
from tidelog.web.svg.scale import Scale

_WIDTH, _LABELS, _VALUES, _ROW, _TOP = 900, 240, 150, 24, 20
_LONGEST_NAME = 32
_SWATCHES = {
    True: Swatch("dirty", "slash", "due"),
    False: Swatch("clean", "plain", "not due"),
}


def draw_dirty_ratios(items: Sequence[Row], *, url: Callable[[Row], str | None]) -> str:
    """Return the SVG. An item has ``log``, ``dirty_ratio``, ``min_ratio``, ``is_due`` and ``why``."""
    bottom = _TOP + _ROW * len(items)
    drawing = Drawing(
        _WIDTH,
        bottom + 8 + LEGEND_HEIGHT,
        title="Dirty ratios",
        description="A bar for each log, as long as its dirty ratio; a line across it is min.cleanable.dirty.ratio",
    )
    scale = Scale(0, 1, _LABELS, _WIDTH - _VALUES)
    for share in (0, 0.25, 0.5, 0.75, 1):
        drawing.line(scale.at(share), _TOP - 4, scale.at(share), bottom, "grid")
        drawing.text(scale.at(share), _TOP - 8, f"{share:.0%}", anchor="middle", style="faint")
    for number, item in enumerate(items):
        _draw_bar(drawing, scale, _TOP + number * _ROW, item, url(item))
    legend = [*_SWATCHES.values(), Swatch("ink", "plain", "threshold: min.cleanable.dirty.ratio")]
    draw_legend(drawing, _LABELS, bottom + 6, legend)
    return drawing.svg()


def _draw_bar(drawing: Drawing, scale: Scale, top: float, item: Row, url: str | None) -> None:
    ratio, limit = float(str(item["dirty_ratio"])), float(str(item["min_ratio"]))
    label, swatch = str(item["log"]), _SWATCHES[bool(item["is_due"])]
    with drawing.mark(item, tip=f"{label}: {ratio:.1%} dirty, {item['why']}", url=url):
        short = label if len(label) <= _LONGEST_NAME else label[: _LONGEST_NAME - 1] + "…"
        drawing.text(_LABELS - 8, top + 17, short, anchor="end")
        drawing.rect(_LABELS, top + 4, max(1, scale.at(ratio) - _LABELS), _ROW - 8, swatch.fill, pattern=swatch.pattern)
        drawing.rect(scale.at(limit) - 1, top + 1, 2, _ROW - 2, "ink")
        drawing.text(scale.at(max(ratio, limit)) + 8, top + 17, f"{ratio:.1%}", style="faint")
