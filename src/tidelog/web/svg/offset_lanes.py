"""The frame of pictures with a lane for each producer over the offsets of a log: labels, axis, legend and marks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from tidelog.web.page import Row
from tidelog.web.svg.drawing import Drawing
from tidelog.web.svg.legend_row import Swatch, draw_legend
from tidelog.web.svg.scale import Scale

WIDTH, LEFT, RIGHT = 960, 190, 940
LANE, BAR = 24, 14
_TOP, _BOTTOM = 54, 30
_LEAST_WIDTH = 2.5
_LONGEST_LABEL = 26


class OffsetLanes:
    """``labels`` are the names of the lanes, and offsets from ``start`` to ``end`` are shown."""

    def __init__(self, *, title: str, description: str, labels: Sequence[str], start: int, end: int) -> None:
        self._lanes = max(1, len(labels))
        self.drawing = Drawing(WIDTH, _TOP + LANE * self._lanes + _BOTTOM, title=title, description=description)
        self.scale = Scale(start, end, LEFT, RIGHT)
        self._bottom = _TOP + LANE * self._lanes
        for tick in self.scale.ticks(6):
            x = self.scale.at(tick)
            self.drawing.line(x, _TOP - 4, x, self._bottom + 4, "grid")
            self.drawing.tick_text(x, self._bottom + 18, f"{int(tick):,}")
        for number, label in enumerate(labels):
            short = label if len(label) <= _LONGEST_LABEL else label[: _LONGEST_LABEL - 1] + "…"
            self.drawing.text(LEFT - 10, self.top(number) + 12, short, anchor="end")
            self.drawing.line(LEFT, self.top(number) + LANE - 5, RIGHT, self.top(number) + LANE - 5, "grid")

    def top(self, lane: int) -> float:
        """Return the upper border of a lane's bars."""
        return _TOP + LANE * lane

    def span(self, first: int, last: int) -> tuple[float, float]:
        """Return the left border and the width of the offsets from ``first`` to ``last``."""
        left = self.scale.at(first)
        return left, max(_LEAST_WIDTH, self.scale.at(last + 1) - left)

    def legend(self, swatches: Iterable[Swatch]) -> None:
        """Draw the legend above the lanes."""
        draw_legend(self.drawing, LEFT, 2, swatches)

    def mark(self, item: Row, stroke: str, *, level: int = 0) -> None:
        """Draw a vertical line for an item with ``mark`` and ``offset``. ``level`` moves its label down."""
        offset = int(str(item["offset"]))
        x = self.scale.at(offset)
        with self.drawing.mark(item, tip=f"{item['mark']}: {offset:,}"):
            self.drawing.line(x, _TOP - 6, x, self._bottom + 4, stroke)
            is_right = x > (LEFT + RIGHT) / 2
            self.drawing.text(
                x - 5 if is_right else x + 5,
                35 + 12 * level,
                f"{item['mark']} {offset:,}",
                anchor="end" if is_right else "start",
            )

    def shade(self, first: int, fill: str, pattern: str) -> None:
        """Fill all lanes from an offset to the end."""
        x = self.scale.at(first)
        self.drawing.rect(x, _TOP - 4, RIGHT - x, self._bottom - _TOP + 4, fill, pattern=pattern)
