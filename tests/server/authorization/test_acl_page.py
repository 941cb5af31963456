"""The page about ACLs lists the required permissions of every API that the broker serves."""

from __future__ import annotations

import re

from project.tree import ROOT
from tidelog.server.handlers.api_groups import API_GROUPS

LOG_IN = {"SaslHandshake", "SaslAuthenticate"}
"""The APIs that a client calls before it is authenticated."""


def test_every_api_has_a_row() -> None:
    page = (ROOT / "docs" / "acls.md").read_text()
    rows = re.findall(r"^\| ([A-Z]\w+(?:, \w+)*) \| ", page, re.MULTILINE)
    named = [name for row in rows if row != "API" for name in row.split(", ")]
    assert sorted(named) == sorted({api.title for api in API_GROUPS} - LOG_IN)
