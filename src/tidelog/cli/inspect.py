"""``tidelog inspect``: prints a page of the inspector without a server, or a page of a running one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import click

from tidelog.cli.options import chosen_format, expand, output_options, schemas_option
from tidelog.cli.output import json_text
from tidelog.cli.remote_page import REMOTE, fetch_page
from tidelog.cli.report import Report, Row, Table
from tidelog.storage.fs import path_of
from tidelog.web.jobs import Jobs
from tidelog.web.page import Kind, Page, Section
from tidelog.web.page_json import page_json
from tidelog.web.query import Query
from tidelog.web.request import PageRequest
from tidelog.web.routes import find_page
from tidelog.web.shown import shown
from tidelog.web.sources import Sources
from tidelog.web.urls import split_suffix


@click.command()
@click.argument("directories", nargs=-1, required=True, metavar="DIR...")
@click.option(
    "--token",
    envvar="TIDELOG_WEB_TOKEN",
    metavar="TOKEN",
    help="The token of a running inspector. The environment variable TIDELOG_WEB_TOKEN sets it, too.",
)
@click.option(
    "--user",
    envvar="TIDELOG_WEB_USER",
    metavar="NAME:PASSWORD",
    help="A user of a running inspector. Use the environment variable TIDELOG_WEB_USER to keep the password out of"
    " process lists.",
)
@click.option(
    "--page", "url", default="/", show_default=True, metavar="URL", help="The path and the query of the page's URL."
)
@schemas_option
@output_options
def inspect(directories: Sequence[str], url: str, schemas: str | None, token: str | None, user: str | None) -> Report:
    """Print a page of the inspector as tables or JSON, without a server.

    The command tidelog web serves the same pages.

    http://HOST:PORT in place of the directories prints a page of a running inspector. The page of a live broker
    (tidelog serve --web) exists only there. Its tables have the values as they are in JSON, with all columns.

    JSON is the same as that of the page's URL with .json at its end. JSON lines and CSV have the rows of all tables,
    with the section of each.

    Exit codes: 0 shown, 2 wrong usage, 3 a directory cannot be read.

    \b
    Examples:
      tidelog inspect /var/lib/kafka
      tidelog inspect /var/lib/kafka --page /logs/0/orders-0
      tidelog inspect /var/lib/kafka --page '/logs/0/orders-0/records?start=-10' --json
      tidelog inspect http://127.0.0.1:8088 --page /broker
    """
    if directories[0].startswith(REMOTE):
        if len(directories) > 1:
            raise click.UsageError("A running inspector is named alone.")
        return _remote_report(fetch_page(directories[0], url, token=token, user=user))
    page = _page(directories, url, schemas)
    if chosen_format() == "json":
        return Report(text=[json_text(page_json(page)) + "\n"])
    sections = [section for section in page.sections if section.table is not None]
    return Report(
        rows=(row for section in sections for row in _rows(section)),
        tables=[_facts(page), *map(_table, sections)],
        notes=[*page.notes, *_rest(sections)],
    )


def _remote_report(found: Mapping[str, Any]) -> Report:
    """Return the report of a page's JSON."""
    if chosen_format() == "json":
        return Report(text=[json_text(found) + "\n"])
    sections = {name: section for name, section in found["sections"].items() if "rows" in section}
    facts: list[Row] = [
        {"fact": name.replace("_", " "), "value": shown(value)} for name, value in found["facts"].items()
    ]
    tables = [
        Table(rows=section["rows"], columns=list(section["rows"][0]) if section["rows"] else [], title=section["title"])
        for section in sections.values()
    ]
    return Report(
        rows=({"section": name, **row} for name, section in sections.items() for row in section["rows"]),
        tables=[Table(rows=facts, title=found["title"]), *tables],
        notes=[*found["notes"], *_remote_rest(sections)],
    )


def _remote_rest(sections: Mapping[str, Any]) -> Iterator[str]:
    for name, section in sections.items():
        if section.get("pages", 1) > 1:
            yield _rest_text(section["title"], name, section["page"], section["pages"], section["total_rows"])


def _page(directories: Sequence[str], url: str, schemas: str | None) -> Page:
    path, _, text = url.partition("?")
    jobs = Jobs(wait_seconds=None)
    try:
        function, parts = find_page(split_suffix(path)[0])
        sources = Sources.of(expand(directories), schemas=None if schemas is None else path_of(schemas))
        return function(PageRequest(sources=sources, jobs=jobs, path=parts, query=Query.parse(text)))
    finally:
        jobs.close()


def _facts(page: Page) -> Table:
    rows: list[Row] = [
        {"fact": fact.title or fact.name.replace("_", " "), "value": shown(fact.value, fact.kind)}
        for fact in page.facts
    ]
    return Table(rows=rows, title=page.title)


def _rows(section: Section) -> Iterator[Row]:
    assert section.table is not None
    for row in section.table.rows:
        yield {"section": section.name, **row}


def _table(section: Section) -> Table:
    assert section.table is not None
    kinds = {column.name: column.kind for column in section.table.columns}
    formats: dict[str, Callable[[Any], str]] = {
        name: partial(shown, kind=kind) for name, kind in kinds.items() if kind is not Kind.NUMBER
    }
    return Table(rows=section.table.rows, columns=list(kinds), title=section.title, show=formats)


def _rest(sections: Sequence[Section]) -> Iterator[str]:
    """Yield a sentence about each table that has more rows than the page shows."""
    for section in sections:
        paging = None if section.table is None else section.table.paging
        if paging is not None and paging.pages > 1:
            yield _rest_text(section.title, section.name, paging.number, paging.pages, paging.total)


def _rest_text(title: str, name: str, number: int, pages: int, total: int) -> str:
    return (
        f"{title}: page {number:,} of {pages:,}, {total:,} rows in all; the parameter {name}.page selects another one."
    )
