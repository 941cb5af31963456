"""A page as its HTML shows it: headings, links, forms, and for each section the rows and the numbers of the picture."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from tidelog.inspect.printable import escaped

_VOID = frozenset({"meta", "link", "img", "input", "br", "hr"})


@dataclass(slots=True)
class ReadSection:
    """``items`` are the numbers of the marks in the picture."""

    rows: int = 0
    items: list[Any] = field(default_factory=list)


@dataclass(slots=True)
class ReadForm:
    """``choices`` are the values of each list."""

    action: str
    method: str
    fields: list[str] = field(default_factory=list)
    hidden: dict[str, str] = field(default_factory=dict)
    choices: dict[str, list[str]] = field(default_factory=dict)


@dataclass(slots=True)
class ReadPage:
    """``links`` are the ``href`` of all ``a`` elements, of HTML and of SVG; ``navigation`` are those in the header."""

    title: str = ""
    headings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    facts: int = 0
    links: list[str] = field(default_factory=list)
    navigation: list[str] = field(default_factory=list)
    forms: list[ReadForm] = field(default_factory=list)
    sections: dict[str, ReadSection] = field(default_factory=dict)
    elements: set[str] = field(default_factory=set)
    event_handlers: list[str] = field(default_factory=list)
    styles: int = 0
    scripts: list[str] = field(default_factory=list)
    refreshes: list[int] = field(default_factory=list)
    refreshes_without_script: list[int] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    unclosed: list[str] = field(default_factory=list)
    """Elements whose end is missing or in another sequence."""
    unprintable: list[str] = field(default_factory=list)
    """Texts and attributes with control characters. Names and values of forms may have them."""

    def queries(self) -> list[str]:
        """Return the URLs of all choices in the forms of the page."""
        return [
            f"{form.action}?{urlencode(form.hidden | {name: value})}"
            for form in self.forms
            for name, values in form.choices.items()
            for value in values
        ]

    def differences(self, found: Mapping[str, Any]) -> list[str]:
        """Compare the page with its JSON. Return a sentence for each difference."""
        wrong = []
        if self.headings != [_collapsed(found["title"])]:
            wrong.append(f"the headings {self.headings} are not the title {found['title']!r}")
        if self.facts != len(found["facts"]):
            wrong.append(f"{self.facts} facts, and {len(found['facts'])} in the JSON")
        if list(self.sections) != list(found["sections"]):
            wrong.append(f"the sections {list(self.sections)}, and {list(found['sections'])} in the JSON")
        for name, section in self.sections.items():
            expected = found["sections"].get(name, {})
            rows, items = expected.get("rows", []), expected.get("picture", [])
            if section.rows != len(rows):
                wrong.append(f"{section.rows} rows of {name}, and {len(rows)} in the JSON")
            if section.items != items:
                wrong.append(f"the picture of {name} has other numbers than the JSON")
        return wrong


def read_html(html: str) -> ReadPage:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    reader.page.unclosed += reader.open
    return reader.page


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.page = ReadPage()
        self.open: list[str] = []
        self._text: list[str] = []
        self._section: str | None = None
        self._is_note = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, {name: value or "" for name, value in attrs})
        if tag not in _VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._start(tag, {name: value or "" for name, value in attrs})

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.page.unclosed.append(tag)
        if tag in self.open:
            while self.open.pop() != tag:
                pass
        if tag == "title" and "svg" not in self.open:
            self.page.title = self._collected()
        elif tag == "h1":
            self.page.headings.append(self._collected())
        elif tag == "p" and self._is_note:
            self.page.notes.append(self._collected())
            self._is_note = False
        elif tag == "section":
            self._section = None

    def _collected(self) -> str:
        return _collapsed("".join(self._text))

    def handle_data(self, data: str) -> None:
        self._text.append(data)
        self._check_printable(data)

    def _check_printable(self, text: str) -> None:
        if not text.replace("\n", "").isprintable():
            self.page.unprintable.append(text)

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        page = self.page
        page.elements.add(tag)
        page.event_handlers += [name for name in attributes if name.startswith("on")]
        page.styles += "style" in attributes
        for name, value in attributes.items():
            if name not in ("name", "value"):
                self._check_printable(value)
        if "id" in attributes:
            page.ids.append(attributes["id"])
        if tag in ("title", "h1", "p"):
            self._text = []
            self._is_note = attributes.get("class") == "note"
        if tag == "a":
            page.links.append(attributes["href"])
            if "header" in self.open:
                page.navigation.append(attributes["href"])
        elif tag == "script":
            page.scripts.append(attributes["src"])
        elif tag == "meta" and attributes.get("http-equiv") == "refresh":
            page.refreshes_without_script.append(int(attributes["content"]))
        elif tag == "body" and attributes.get("data-reload"):
            page.refreshes.append(int(attributes["data-reload"]))
        elif tag == "dt" and "main" in self.open:
            page.facts += 1
        elif tag == "section":
            self._section = attributes["id"]
            page.sections[self._section] = ReadSection()
        elif tag == "tr" and "tbody" in self.open and self._section is not None:
            page.sections[self._section].rows += 1
        self._start_of_form(tag, attributes)
        if "data-item" in attributes:
            assert self._section is not None
            page.sections[self._section].items.append(json.loads(attributes["data-item"]))

    def _start_of_form(self, tag: str, attributes: dict[str, str]) -> None:
        forms = self.page.forms
        if tag == "form":
            forms.append(ReadForm(attributes["action"], attributes["method"]))
        elif tag == "input" and attributes["type"] == "hidden":
            forms[-1].hidden[attributes["name"]] = attributes["value"]
        elif tag in ("input", "select"):
            forms[-1].fields.append(attributes["name"])
        elif tag == "option":
            forms[-1].choices.setdefault(forms[-1].fields[-1], []).append(attributes["value"])


def _collapsed(text: str) -> str:
    """Return a text as a heading shows it: escaped, with single spaces."""
    return " ".join(escaped(text).split())
