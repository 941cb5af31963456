"""The JSON of a page: every part of a page's report, as plain values."""

from __future__ import annotations

import json

from tidelog.web.page import Column, Fact, Kind, Link, Page, Paging, Picture, Section, Table
from tidelog.web.page_json import page_json


def test_a_page_as_json() -> None:
    page = Page(
        title="Orders",
        trail=[Link("Cluster", "/")],
        facts=[Fact(name="bytes", value=2048, kind=Kind.BYTES, title="space"), Fact(name="none", value=None)],
        sections=[
            Section(
                name="logs",
                title="Logs",
                text="Each log.",
                picture=Picture(items=[{"log": "a-0", "bytes": 3}], draw=lambda: "<svg/>"),
                table=Table(
                    columns=[Column(name="log")],
                    rows=[{"log": "a-0", "hidden": [1, {"x": None}]}],
                    paging=Paging(number=2, size=1, total=3, sort="-log"),
                ),
            ),
            Section(name="text", title="Only a text", text="x"),
            Section(name="table", title="T", table=Table(columns=[], rows=[])),
        ],
        notes=["A note."],
    )
    assert page_json(page) == {
        "title": "Orders",
        "facts": {"bytes": 2048, "none": None},
        "sections": {
            "logs": {
                "title": "Logs",
                "text": "Each log.",
                "picture": [{"log": "a-0", "bytes": 3}],
                "rows": [{"log": "a-0", "hidden": [1, {"x": None}]}],
                "page": 2,
                "pages": 3,
                "total_rows": 3,
                "sort": "-log",
            },
            "text": {"title": "Only a text", "text": "x"},
            "table": {"title": "T", "rows": []},
        },
        "notes": ["A note."],
    }
    json.dumps(page_json(page))
