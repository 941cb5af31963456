"""Pages of a log that a running process changes: it appends in torn writes, rolls, deletes and compacts."""

from __future__ import annotations

import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from web.harness import serving

LIVE_BROKER = Path(__file__).parents[1] / "live_broker.py"
HANG_S = 300
URLS = (
    "/logs/0/t-0/records.json?until=log_end&limit=200",
    "/logs/0/t-0/records.json?until=log_end&start=%3C999999999&limit=200",
    "/logs/0/t-0/records.json?until=log_end&start=-100",
    "/logs/0/t-0/records.json?follow=1&until=log_end",
)


@pytest.mark.heavy
def test_every_response_is_consistent_while_files_come_and_go(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    statuses: Counter[int] = Counter()
    linked: Counter[int] = Counter()
    with (
        subprocess.Popen(
            [sys.executable, LIVE_BROKER, tmp_path, "3"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as broker,
        serving(tmp_path) as served,
    ):
        assert broker.stdout is not None
        assert broker.stdin is not None
        assert broker.stdout.readline() == "ready\n"
        begun_s = time.monotonic()
        while time.monotonic() < begun_s + 15 or (linked[200] <= 20 and time.monotonic() < begun_s + HANG_S):
            for url in URLS:
                response = served.ready(url)
                statuses[response.status] += 1
                if response.status == 200:
                    rows = response.json["sections"]["records"]["rows"]
                    check_rows(rows)
                    for row in rows[-1:]:
                        for link in (row["url"].partition("#")[0], row["url"].partition("/batches")[0]):
                            linked[served.ready(link).status] += 1
        broker.stdin.close()
    assert set(statuses) <= {200, 409}, statuses
    assert statuses[409] < statuses[200] / 20, statuses
    assert set(linked) <= {200, 404, 409}, "a segment may be deleted or compacted meanwhile"
    assert linked[200] > 20


def check_rows(rows: list[dict[str, Any]]) -> None:
    """Each record's value is its offset; no bytes of a running process may look damaged."""
    assert [row["kind"] for row in rows] == ["record"] * len(rows), [row for row in rows if row["kind"] == "gap"]
    offsets = [row["offset"] for row in rows]
    assert offsets == sorted(set(offsets))
    assert [int(row["value"]) for row in rows] == offsets
