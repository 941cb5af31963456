"""An SVG element that is written piece by piece.

Colours come from the style sheet by class, so that they follow the dark and the light theme. A fill class has a pattern
of its own, so that a picture can be read without colour. A mark is a group with the numbers of one item, as JSON in
``data-item``: tests compare them with the page's JSON. ElementTree escapes all text. Thread rule: one thread.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final
from xml.etree import ElementTree

from tidelog.inspect.printable import escaped

PATTERNS: Final[Mapping[str, str]] = {
    "plain": "",
    "dots": "M2 2h1v1h-1z M6 6h1v1h-1z",
    "slash": "M-2 10L10 -2M-2 2L2 -2M6 10L10 6",
    "backslash": "M-2 -2L10 10M6 -2L10 2M-2 6L2 10",
    "grid": "M0 4H8M4 0V8",
    "rows": "M0 4H8",
    "columns": "M4 0V8",
    "waves": "M0 4Q2 0 4 4T8 4",
    "crosses": "M2 2L6 6M6 2L2 6",
}
"""The lines of each pattern in a tile of 8 by 8."""

_CHARACTER: Final = 7.0
"""The most that a digit of a tick takes."""
_numbers = itertools.count(1)


class Drawing:
    """``title`` is the accessible name, and ``description`` says in a sentence how to read the picture."""

    def __init__(self, width: float, height: float, *, title: str, description: str) -> None:
        self._id = f"drawing-{next(_numbers)}"
        self._width = width
        self._root = ElementTree.Element(
            "svg",
            {
                "viewBox": f"0 0 {_number(width)} {_number(height)}",
                "width": _number(width),
                "height": _number(height),
                "role": "group",
                "aria-label": _clean(f"{title}. {description}"),
                "class": "drawing",
            },
        )
        self._definitions = ElementTree.SubElement(self._root, "defs")
        self._stack = [self._root]
        self._patterns: set[str] = set()

    def rect(
        self, x: float, y: float, width: float, height: float, fill: str, *, pattern: str = "plain", tip: str = ""
    ) -> None:
        """Draw a rectangle with the class ``fill``, and a pattern over it. ``tip`` is shown under a pointer."""
        place = {"x": _number(x), "y": _number(y), "width": _number(width), "height": _number(height)}
        element = self._add("rect", {**place, "class": f"fill-{fill}"})
        if PATTERNS[pattern]:
            self._add("rect", {**place, "fill": f"url(#{self._pattern(pattern)})", "class": "pattern"})
        if tip:
            ElementTree.SubElement(element, "title").text = _clean(tip)

    def line(self, x1: float, y1: float, x2: float, y2: float, stroke: str = "axis", *, dashed: bool = False) -> None:
        """Draw a line with the class ``stroke``."""
        place = {"x1": _number(x1), "y1": _number(y1), "x2": _number(x2), "y2": _number(y2)}
        self._add("line", {**place, "class": f"stroke-{stroke}" + (" dashed" if dashed else "")})

    def path(self, data: str, stroke: str, *, fill: str = "none") -> None:
        """Draw a path. ``data`` are SVG's path commands."""
        self._add("path", {"d": data, "class": f"stroke-{stroke} fill-{fill}"})

    def circle(self, x: float, y: float, radius: float, fill: str, *, tip: str = "") -> None:
        element = self._add(
            "circle", {"cx": _number(x), "cy": _number(y), "r": _number(radius), "class": f"fill-{fill}"}
        )
        if tip:
            ElementTree.SubElement(element, "title").text = _clean(tip)

    def text(self, x: float, y: float, text: str, *, anchor: str = "start", style: str = "label") -> None:
        """Write a text at its base line. ``anchor`` is start, middle or end; ``style`` is a class."""
        place = {"x": _number(x), "y": _number(y), "text-anchor": anchor, "class": f"text-{style}"}
        self._add("text", place).text = _clean(text)

    def tick_text(self, x: float, y: float, text: str) -> None:
        """Write the text of a tick with its middle at ``x``, or nearer to the picture's middle if it would leave it."""
        half = _CHARACTER * len(text) / 2
        self.text(min(max(x, half), self._width - half), y, text, anchor="middle", style="faint")

    @contextmanager
    def mark(self, item: Mapping[str, object], *, tip: str = "", url: str | None = None) -> Iterator[None]:
        """Group the shapes of one item of the picture. With ``url`` the group is a link, whose name is ``tip``."""
        attributes = {"class": "mark", "data-item": json.dumps(dict(item), sort_keys=True)}
        if url is not None:
            attributes |= {"href": url, "aria-label": _clean(tip)}
        element = self._add("g" if url is None else "a", attributes)
        if tip:
            ElementTree.SubElement(element, "title").text = _clean(tip)
        self._stack.append(element)
        try:
            yield
        finally:
            self._stack.pop()

    def svg(self) -> str:
        return ElementTree.tostring(self._root, encoding="unicode")

    def _add(self, tag: str, attributes: Mapping[str, str]) -> ElementTree.Element:
        return ElementTree.SubElement(self._stack[-1], tag, dict(attributes))

    def _pattern(self, name: str) -> str:
        identity = f"{self._id}-{name}"
        if name not in self._patterns:
            self._patterns.add(name)
            pattern = ElementTree.SubElement(
                self._definitions,
                "pattern",
                {"id": identity, "width": "8", "height": "8", "patternUnits": "userSpaceOnUse"},
            )
            ElementTree.SubElement(pattern, "path", {"d": PATTERNS[name], "class": "pattern-line"})
        return identity


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _clean(text: str) -> str:
    return escaped(text)
