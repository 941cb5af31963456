"""A section of the broker's page, made from a report of the running broker."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tidelog.web import urls
from tidelog.web.page import Column, Picture, Row, Section, Table
from tidelog.web.request import PageRequest
from tidelog.web.svg.bars import draw_bars

_MOST_BARS = 20
_ROWS = 50


@dataclass(frozen=True, slots=True)
class LiveReports:
    """The reports of one moment, by name."""

    request: PageRequest
    by_name: Mapping[str, Any]

    def report(self, name: str) -> Mapping[str, Any]:
        """Return a report; an empty one without rows if the broker has not made it."""
        found: Mapping[str, Any] = self.by_name.get(name, {"rows": [], "total": 0, "is_complete": True})
        return found

    def section(
        self,
        name: str,
        title: str,
        report: Mapping[str, Any],
        columns: Sequence[Column],
        *,
        text: str = "",
        empty: str = "Nothing to show.",
        picture: Picture | None = None,
        is_folded: bool = False,
    ) -> Section:
        """Return a section with a table of a report's rows, which sorts by every column."""
        given = [dict(row) for row in report["rows"]]
        rows, paging = self.request.query.paged(
            name, given, keys={column.name: _key(column.name) for column in columns}, size=_ROWS
        )
        total = report.get("total", len(given))
        hint = f" The first {len(given):,} of {total:,} are here: a name selects others." if total > len(given) else ""
        return Section(
            name=name,
            title=title,
            text=text + hint,
            picture=picture,
            table=Table(columns=columns, rows=rows, paging=paging, empty=empty),
            is_folded=is_folded,
        )

    def log_link(self, row: Row) -> str | None:
        """Return the URL of a partition's log, or None if no given directory has it."""
        path = row.get("log_dir")
        for log_dir in self.request.sources.log_dirs:
            if str(log_dir.path) == path:
                return urls.log_url(log_dir.key, f"{row['topic']}-{row['partition']}")
        return None

    def log_dir_link(self, row: Row) -> str | None:
        """Return the URL of the log directory with the row's path."""
        keys = (one.key for one in self.request.sources.log_dirs if str(one.path) == row.get("path"))
        return next(map(urls.log_dir_url, keys), None)


def bars(
    rows: Iterable[Row],
    *,
    title: str,
    name: str,
    value: str,
    unit: str = "",
    url: Callable[[Row], str | None] = lambda _item: None,
) -> Picture | None:
    """Return a bar for each of the largest rows, or None if all values are 0. ``name`` and ``value`` are keys."""
    valued = [row for row in rows if isinstance(row[value], int) and row[value]]
    items = sorted(valued, key=lambda row: -int(str(row[value])))[:_MOST_BARS]
    if not items:
        return None
    return Picture(
        items=items,
        draw=lambda: draw_bars(
            items, title=title, name=name, value=value, text=lambda size: f"{size:,}{unit}", url=url
        ),
    )


def partition_name(row: Row) -> str:
    return f"{row['topic']}-{row['partition']}"


def _key(name: str) -> Callable[[Row], Any]:
    def value(row: Row) -> Any:
        found = row[name]
        return str(found) if isinstance(found, list | dict) else found

    return value
