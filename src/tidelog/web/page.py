"""A page as data: facts, tables and pictures, without HTML.

The HTML (``html``), the JSON (``page_json``) and the command line (``cli.inspect``) all come from this value, so a page
shows nothing that a command cannot print. Values are those of JSON: text, numbers, booleans, None, lists and mappings.
Text comes from data directories and is hostile: every output escapes it. Pure. Thread rule: any thread.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

Row = Mapping[str, object]


class Kind(enum.StrEnum):
    """The meaning of a value, which decides how people see it. JSON has the plain value."""

    TEXT = "text"
    NUMBER = "number"
    BYTES = "bytes"
    """A size in bytes."""
    TIME = "time"
    """Milliseconds since 1970; -1 and None mean that there is no time."""
    DURATION = "duration"
    """Milliseconds."""
    PERCENT = "percent"
    """A share between 0 and 1."""
    CODE = "code"
    """An identifier, a path or hex, in a fixed-width font."""
    SENTENCE = "sentence"
    """A sentence or a clause. Its column keeps a readable width."""
    HEX = "hex"
    """Rows of bytes in hex or as text, in a fixed-width font and without line breaks."""
    DATA = "data"
    """The text of a key or a value of a record, with its spaces and line breaks."""


@dataclass(frozen=True, slots=True)
class Link:
    title: str
    url: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """A value about the subject of the page. ``help`` is a sentence that explains it."""

    name: str
    value: object
    kind: Kind = Kind.TEXT
    title: str = ""
    url: str | None = None
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a table. ``link`` returns the URL of a row's cell, or None."""

    name: str
    kind: Kind = Kind.TEXT
    title: str = ""
    link: Callable[[Row], str | None] | None = None
    help: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Paging:
    """The part of a table that a page shows. ``number`` counts from 1. ``sort`` is a column's name, with ``-`` before
    it for a descending order."""

    number: int
    size: int
    total: int
    sort: str = ""
    sortable: frozenset[str] = frozenset()

    @property
    def pages(self) -> int:
        return max(1, -(-self.total // self.size))


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows with the same keys. The HTML shows ``columns`` of them, and the JSON all keys."""

    columns: Sequence[Column]
    rows: Sequence[Row]
    paging: Paging | None = None
    empty: str = "Nothing to show."
    """The sentence that stands in place of a table without rows."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Picture:
    """A drawing of ``items``. The SVG marks each of them with its numbers, so a test can compare both."""

    items: Sequence[Row]
    draw: Callable[[], str]
    """Return the SVG element as text."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a page under a heading. ``name`` is its key in the JSON, and the prefix of its table's parameters."""

    name: str
    title: str
    text: str = ""
    picture: Picture | None = None
    table: Table | None = None
    links: Sequence[Link] = ()
    is_folded: bool = False
    """True for details that the HTML shows after a click."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    value: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FormField:
    """A query parameter that people can set. With ``choices`` it is a list, else a text field."""

    name: str
    title: str
    value: str
    choices: Sequence[Choice] = ()
    hint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """``trail`` leads from the cluster to this page. ``follow`` names the section whose rows a small script appends to
    while a log grows; ``refresh_seconds`` asks the browser to load the page again."""

    title: str
    trail: Sequence[Link] = ()
    facts: Sequence[Fact] = ()
    form: Sequence[FormField] = ()
    sections: Sequence[Section] = ()
    notes: Sequence[str] = ()
    links: Sequence[Link] = ()
    refresh_seconds: int | None = None
    follow: str | None = None
    follow_query: Mapping[str, str] = field(default_factory=dict)
    """The changed parameters of the request for the next rows."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Paths that the page was made from, by a short name."""
