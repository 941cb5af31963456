"""A page as JSON: facts by name, and for each section its rows and the items of its picture. Pure."""

from __future__ import annotations

from typing import Any

from tidelog.web.page import Page, Section


def page_json(page: Page) -> dict[str, Any]:
    """Return the page's report as values for ``json.dumps``."""
    return {
        "title": page.title,
        "facts": {fact.name: fact.value for fact in page.facts},
        "sections": {section.name: _section_json(section) for section in page.sections},
        "notes": list(page.notes),
    }


def _section_json(section: Section) -> dict[str, Any]:
    found: dict[str, Any] = {"title": section.title}
    if section.text:
        found["text"] = section.text
    if section.picture is not None:
        found["picture"] = [dict(item) for item in section.picture.items]
    if section.table is not None:
        found["rows"] = [dict(row) for row in section.table.rows]
        paging = section.table.paging
        if paging is not None:
            found |= {"page": paging.number, "pages": paging.pages, "total_rows": paging.total, "sort": paging.sort}
    return found
