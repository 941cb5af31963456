"""The HTML of pages: hostile text in every field of a page, and the parts of the template that pages use."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.web.html import NAVIGATION, error_html, login_html, page_html, running_html
from tidelog.web.jobs import JobProgress
from tidelog.web.page import Choice, Column, Fact, FormField, Kind, Link, Page, Paging, Picture, Section, Table
from tidelog.web.page_json import page_json
from tidelog.web.query import Query
from tidelog.web.shown import exact, machine_time, shown
from tidelog.web.svg.bars import draw_bars
from web.page_reader import read_html

HOSTILE = (
    "</title></textarea></script><script>alert(1)</script><img src=x onerror=alert(1)>\"'>{{ 7*7 }}{% raw %}"
    "\x1b[2J\u202e\u2066\0\x7f\x85"
)
ELEMENTS = {
    *("html", "head", "meta", "title", "link", "body", "a", "header", "img", "nav", "ul", "li", "main", "ol", "div"),
    *("h1", "h2", "bdi", "p", "code", "form", "input", "label", "select", "option", "button", "dl", "dt", "dd"),
    *("span", "time", "section", "figure", "svg", "defs", "g", "rect", "text", "table", "thead", "tr", "th", "tbody"),
    *("td", "footer", "details", "summary", "progress", "script", "noscript"),
}


def full_page(text: str) -> Page:
    """Return a page that has a text in every field that can have one from a data directory."""
    rows = [{"a": text, "kind": kind.value, "data": text, "more": [text, {text: text}]} for kind in Kind]
    columns = [Column(name="a", help=text, link=lambda _row: "/topics/x"), Column(name="data", kind=Kind.DATA)]
    items = [{"name": text, "value": 3}]
    return Page(
        title=text,
        trail=[Link("Cluster", "/"), Link(text, "/topics/x")],
        facts=[Fact(name=f"f{kind}", title=text, value=text, kind=kind, help=text) for kind in Kind],
        form=[
            FormField(name="text", title=text, value=text, hint=text),
            FormField(name="list", title="list", value=text, choices=[Choice(value=text, title=text)]),
        ],
        sections=[
            Section(
                name="first",
                title=text,
                text=text,
                picture=Picture(
                    items=items, draw=lambda: draw_bars(items, title=text, name="name", value="value", text=str)
                ),
                table=Table(columns=columns, rows=rows, paging=Paging(number=2, size=3, total=9, sort="-a")),
                links=[Link(text, "/topics/x")],
            ),
            Section(name="second", title="empty", table=Table(columns=columns, rows=[], empty=text), is_folded=True),
        ],
        notes=[text],
        links=[Link(text, "/topics/x")],
    )


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example(HOSTILE)
def test_any_text_in_any_field_is_escaped(text: str) -> None:
    query = Query({"text": text, text[:20]: text})
    html = page_html(full_page(text), "/topics/x", query)
    read = read_html(html)
    assert read.elements <= ELEMENTS
    assert read.scripts == []
    assert read.event_handlers == []
    assert read.styles == 0
    paths = {link.partition("?")[0] for link in read.links} - {link.url for link in NAVIGATION}
    assert paths == {"", "/topics/x", "/topics/x.json", "#content"}
    assert read.unprintable == []
    assert read.unclosed == []


def test_the_page_says_all_that_its_json_has() -> None:
    page = full_page("plain text")
    read, found = read_html(page_html(page, "/a", Query())), page_json(page)
    assert read.title == "plain text · tidelog"
    assert read.headings == ["plain text"]
    assert read.facts == len(found["facts"])
    first = read.sections["first"]
    assert (first.rows, first.items) == (len(Kind), found["sections"]["first"]["picture"])
    assert read.sections["second"].rows == 0
    assert "/topics/x" in read.links


@pytest.mark.parametrize(
    ("number", "pages", "expected"),
    [(1, 1, []), (1, 2, ["?t.page=2"]), (2, 2, ["?t.page=1"]), (2, 3, ["?t.page=1", "?t.page=3"])],
)
def test_links_to_other_pages_of_a_table(number: int, pages: int, expected: list[str]) -> None:
    table = Table(columns=[Column(name="a")], rows=[{"a": 1}], paging=Paging(number=number, size=1, total=pages))
    page = Page(title="x", sections=[Section(name="t", title="t", table=table)])
    read = read_html(page_html(page, "/a", Query()))
    assert [link for link in read.links if link.startswith("?")] == expected


def test_a_click_on_a_heading_sorts_and_goes_to_the_first_page() -> None:
    def links(sort: str) -> list[str]:
        paging = Paging(number=2, size=1, total=5, sort=sort, sortable=frozenset({"a"}))
        table = Table(columns=[Column(name="a"), Column(name="b")], rows=[{"a": 1, "b": 2}], paging=paging)
        page = Page(title="x", sections=[Section(name="t", title="t", table=table)])
        read = read_html(page_html(page, "/a", Query({"t.page": "2", "x": "y"})))
        return [link for link in read.links if "sort=" in link]

    assert links("") == ["?x=y&t.sort=a"]
    assert links("a") == ["?x=y&t.sort=-a"]
    assert links("-a") == ["?x=y&t.sort=a"]


def test_a_form_keeps_the_other_parameters() -> None:
    page = Page(title="x", form=[FormField(name="topic", title="Topic", value="a")])
    read = read_html(page_html(page, "/groups", Query({"t.sort": "a", "topic": "old", "<b>": "1"})))
    [form] = read.forms
    assert (form.action, form.method) == ("/groups", "get")
    assert form.hidden == {"t.sort": "a", "<b>": "1"}
    assert form.fields == ["topic"]


def test_pages_of_errors_waiting_and_login_are_escaped() -> None:
    progress = JobProgress(begun_ms=0, total=100, done=40)
    for html in (
        error_html(404, "No", HOSTILE, {"file": HOSTILE, "position": 3}),
        running_html(HOSTILE, progress, 1500, HOSTILE),
        login_html(HOSTILE, HOSTILE),
    ):
        read = read_html(html)
        assert read.elements <= ELEMENTS
        assert read.event_handlers == []
        assert read.unprintable == []
        assert read.unclosed == []
        assert len(read.headings) == 1


LONG = st.integers(-(2**63), 2**63 - 1)


@given(st.none() | st.booleans() | LONG | st.floats() | st.text(st.characters()) | st.lists(LONG | st.text()))
@example([HOSTILE, 3])
def test_every_value_has_a_text_of_every_kind(value: object) -> None:
    for kind in Kind:
        text = shown(value, kind)
        assert all(c.isprintable() or c == "\n" for c in text)
        tip = exact(value, kind)
        assert tip is None or tip.isprintable()


@given(LONG)
def test_every_number_is_a_time(number: int) -> None:
    found = machine_time(number)
    assert found is None or found.endswith("+00:00")
    page = Page(title="x", facts=[Fact(name="t", value=number, kind=Kind.TIME)])
    assert read_html(page_html(page, "/a", Query())).facts == 1


def test_scripts_of_pages_that_load_themselves_again_or_follow() -> None:
    table = Table(columns=[Column(name="a")], rows=[{"a": 1}])
    page = Page(title="x", sections=[Section(name="t", title="t", table=table)], refresh_seconds=5)
    read = read_html(page_html(page, "/a", Query()))
    assert (read.scripts, read.refreshes, read.refreshes_without_script) == (["/static/reload.js"], [5], [5])
    followed = read_html(page_html(replace(page, follow="t"), "/a", Query()))
    assert (followed.scripts, followed.refreshes) == (["/static/follow.js"], [])
    assert followed.refreshes_without_script == [5]
