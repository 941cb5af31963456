"""Pages about a directory in object storage are the same as those about the directory on the disk."""

from __future__ import annotations

import pytest

from conftest import GoldenFactory
from golden_sets import SCENARIOS
from s3_server import put, s3_server
from tidelog.storage.fs import path_of
from tidelog.web.page_json import page_json
from web.harness import read_page

URLS = (  # pages of every kind
    "/",
    "/topics/txn",
    "/logs/0",
    "/logs/0/txn-0",
    "/logs/0/compacted-0/segments/0",
    "/logs/0/txn-0/records?start=10",
    "/logs/0/txn-0/producers",
    "/logs/0/txn-0/transactions",
    "/logs/0/compacted-0/cleaner",
    "/logs/0/txn-0/findings",
    "/logs/0/txn-0/count",
    "/groups",
    "/transactions",
    "/retention?now=2030-01-01",
    "/cleaner",
    "/metadata",
    "/metadata/log",
    "/findings?run=1",
)

TIMES = {"age", "age_ms", "as_of", "checked_at", "modified", "read_at", "shutdown_at", "took", "written"}


def test_pages_of_object_storage(golden: GoldenFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    path = golden(SCENARIOS)
    with s3_server() as environment:
        for name, value in environment.items():
            monkeypatch.setenv(name, value)
        address = put(path, "disk", environment)
        for url in URLS:
            local, remote = (page_json(read_page(one, url)) for one in (path, path_of(address)))
            assert comparable(remote, address) == comparable(local, str(path)), url


def comparable(value: object, place: str) -> object:
    """Return JSON without the directory's address, and without the times of reading and of files' changes."""
    match value:
        case dict():
            return {name: comparable(one, place) for name, one in value.items() if name not in TIMES}
        case list():
            return [comparable(one, place) for one in value]
        case str():
            return value.replace(place, "DISK").partition("Counted at ")[0]
    return value
