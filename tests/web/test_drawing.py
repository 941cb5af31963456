"""Pictures: escaped text, marks with the numbers of their items, patterns, and scales."""

from __future__ import annotations

import json
import math
from xml.etree import ElementTree

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.web.svg.bars import draw_bars
from tidelog.web.svg.drawing import PATTERNS, Drawing
from tidelog.web.svg.scale import Scale

HOSTILE = '</text></svg><script>alert(1)</script>" onload="x" \' & \x1b[2J \u202e \ud800 \0 \ufffe'
ATTRIBUTES = {
    *("class", "data-item", "aria-label", "href", "role", "viewBox", "width", "height", "x", "y", "r", "cx", "cy"),
    "text-anchor",
}
numbers = st.floats(-1e9, 1e9)


def drawn(drawing: Drawing) -> ElementTree.Element:
    return ElementTree.fromstring(drawing.svg())


@given(st.text(st.characters()))
@example(HOSTILE)
def test_any_text_is_escaped(text: str) -> None:
    drawing = Drawing(100, 50, title=text, description=text)
    with drawing.mark({"name": text, text: 1}, tip=text, url="/topics/x"):
        drawing.text(1, 2, text)
        drawing.rect(0, 0, 5, 5, "time", tip=text)
        drawing.circle(1, 1, 1, "time", tip=text)
    root = drawn(drawing)
    assert {element.tag for element in root.iter()} | {"title"} == {
        "a",
        "circle",
        "defs",
        "rect",
        "svg",
        "text",
        "title",
    }
    allowed = {
        "class",
        "data-item",
        "aria-label",
        "href",
        "role",
        "viewBox",
        "width",
        "height",
        "x",
        "y",
        "r",
        "cx",
        "cy",
    }
    names = {name for element in root.iter() for name in element.attrib} - {"text-anchor"}
    assert names <= allowed
    label = root.find(".//text")
    assert label is not None
    assert all(c.isprintable() or c == "\n" for c in label.text or "")
    if text.isprintable():
        assert (label.text or "") == text
        assert root.attrib["aria-label"] == f"{text}. {text}"


json_values = st.none() | st.booleans() | st.integers() | st.text(st.characters())


@given(st.dictionaries(st.text(st.characters()), json_values, max_size=4))
@example({"name": HOSTILE})
def test_a_mark_has_the_numbers_of_its_item(item: dict[str, object]) -> None:
    drawing = Drawing(10, 10, title="t", description="d")
    with drawing.mark(item):
        drawing.rect(0, 0, 1, 1, "time")
    [mark] = [element for element in drawn(drawing).iter() if "data-item" in element.attrib]
    assert json.loads(mark.attrib["data-item"]) == json.loads(json.dumps(item))


def test_a_mark_with_a_url_is_a_link_with_a_name() -> None:
    drawing = Drawing(10, 10, title="t", description="d")
    with drawing.mark({"a": 1}, tip="the first", url="/topics/a?x=1&y=2"):
        drawing.text(0, 0, "inside")
    drawing.text(0, 0, "outside")
    root = drawn(drawing)
    link = next(element for element in root if element.tag == "a")
    assert (link.attrib["href"], link.attrib["aria-label"]) == ("/topics/a?x=1&y=2", "the first")
    assert [element.text for element in link.iter("text")] == ["inside"]
    assert [element.text for element in root.iter("text")] == ["inside", "outside"]


def test_marks_end_after_an_error() -> None:
    drawing = Drawing(10, 10, title="t", description="d")
    with pytest.raises(KeyError), drawing.mark({"a": 1}):
        raise KeyError
    drawing.text(0, 0, "outside")
    assert [element.tag for element in drawn(drawing)] == ["defs", "g", "text"]


def test_patterns_are_defined_once_and_belong_to_their_picture() -> None:
    first, second = (Drawing(10, 10, title="t", description="d") for _ in range(2))
    for drawing in (first, second):
        for name in PATTERNS:
            drawing.rect(0, 0, 1, 1, "time", pattern=name)
            drawing.rect(0, 0, 1, 1, "size", pattern=name)
    ids = [[element.attrib["id"] for element in drawn(one).iter("pattern")] for one in (first, second)]
    assert len(ids[0]) == len(set(ids[0])) == len(PATTERNS) - 1  # ``plain`` has none
    assert not set(ids[0]) & set(ids[1])
    used = {element.attrib["fill"] for element in drawn(first).iter("rect") if "fill" in element.attrib}
    assert used == {f"url(#{one})" for one in ids[0]}


def test_there_is_no_style_attribute_which_the_policy_forbids() -> None:
    drawing = Drawing(10, 10, title="t", description="d")
    drawing.rect(0, 0, 1, 1, "time", pattern="dots", tip="x")
    drawing.line(0, 0, 1, 1, dashed=True)
    drawing.path("M0 0L1 1", "axis")
    drawing.circle(0, 0, 1, "time")
    drawing.text(0, 0, "x", anchor="end", style="faint")
    assert not [element for element in drawn(drawing).iter() if "style" in element.attrib]


@given(numbers, numbers, numbers)
@example(-0.001, 0.0, 1e-9)
@example(100.0, 10.0, 1000.0)
def test_numbers_are_plain_decimals(x: float, y: float, width: float) -> None:
    drawing = Drawing(10, 10, title="t", description="d")
    drawing.rect(x, y, width, 1, "time")
    rect = next(drawn(drawing).iter("rect"))
    for name, expected in (("x", x), ("y", y), ("width", width)):
        text = rect.attrib[name]
        assert "e" not in text
        assert math.isclose(float(text), expected, rel_tol=0, abs_tol=0.0051)


@given(st.floats(0, 200), st.integers(0, 2**53))
@example(190.0, 1_234_567_890_123)
def test_the_text_of_a_tick_stays_within_the_picture(x: float, value: int) -> None:
    drawing = Drawing(200, 50, title="", description="")
    drawing.tick_text(x, 40, f"{value:,}")
    (text,) = drawn(drawing).iter("text")
    half = 3.5 * len(f"{value:,}")
    middle = float(text.attrib["x"])
    assert half <= middle <= 200 - half
    assert middle == pytest.approx(x, abs=0.01) or min(x, 200 - x) < half


@given(st.lists(st.integers(0, 2**63), max_size=30))
def test_bars_have_all_items_within_the_picture(sizes: list[int]) -> None:
    items = [{"topic": f"<{number}>" * 20, "bytes": size} for number, size in enumerate(sizes)]
    svg = draw_bars(items, title="t", name="topic", value="bytes", text=str, url=lambda _: "/x")
    root = ElementTree.fromstring(svg)
    assert [json.loads(one.attrib["data-item"]) for one in root.iter() if "data-item" in one.attrib] == items
    for rect in root.iter("rect"):
        assert float(rect.attrib["width"]) >= 1
        assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= float(root.attrib["width"])


@given(numbers, numbers, numbers, numbers, numbers)
def test_a_scale_stays_within_its_coordinates(low: float, high: float, start: float, end: float, value: float) -> None:
    at = Scale(low, high, start, end).at(value)
    slack = 1e-6 * max(1, abs(start), abs(end))
    assert min(start, end) - slack <= at <= max(start, end) + slack
    if high <= low:
        assert at == start


def test_a_scale_is_linear_between_its_ends() -> None:
    scale = Scale(100, 200, 10, 30)
    assert [scale.at(value) for value in (0, 100, 150, 200, 900)] == [10, 10, 20, 30, 30]
    assert Scale(5, 5, 10, 30).at(5) == 10


@given(st.integers(-(2**62), 2**62), st.integers(20, 2**62), st.integers(2, 10))
@example(0, 1, 5)
@example(2**40, 1, 5)
@example(1_700_000_000_000, 86_400_000, 5)
@example(36_028_797_018_963_946, 20, 9)
def test_ticks_are_round_and_within_the_range(low: int, span: int, count: int) -> None:
    ticks = Scale(low, low + span, 0, 100).ticks(count)
    slack = 1e-9 * max(abs(low), abs(low + span))
    assert 1 <= len(ticks) <= count + 2
    assert all(low - slack <= tick <= low + span + slack for tick in ticks)
    assert ticks == sorted(set(ticks))


def test_ticks_of_a_range_without_a_width() -> None:
    assert Scale(7, 7, 0, 100).ticks() == [7]
    assert Scale(0, 100, 0, 1).ticks() == [0, 20, 40, 60, 80, 100]
    assert Scale(3, 17, 0, 1).ticks() == [5, 10, 15]
