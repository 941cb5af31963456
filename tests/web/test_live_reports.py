"""The pages of the cleaner, retention and topics while a process holds the log directory, and the page of a report that
is still being made."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.web.html import running_html
from tidelog.web.jobs import JobProgress
from web.harness import facts_of, read_page, rows_of, section_of
from web.made_directories import cleaner_directory, retention_directory


@pytest.fixture
def held(tmp_path: Path) -> Iterator[Path]:
    now_ms = time.time_ns() // 1_000_000
    retention_directory(tmp_path / "retention", now_ms)
    path = cleaner_directory(tmp_path / "cleaner", now_ms)
    locks = [LOCAL.lock(one / LOCK_FILE) for one in (path, tmp_path / "retention" / "broker1")]
    yield path
    for lock in locks:
        lock.release()


def test_the_cleaner_of_a_running_broker(held: Path) -> None:
    """The log of a held directory ends where its batches end, and open transactions are known from the batches."""
    found = {row["log"]: row["state"] for row in rows_of(read_page(held, "/cleaner"), "logs")}
    assert found["due-0"] == "due"
    assert found["open-0"] == "waits"
    assert facts_of(read_page(held, "/logs/0/half-0/cleaner"))["dirty_keys"] == 7


def test_retention_of_a_running_broker(held: Path) -> None:
    page = read_page(held.parents[1] / "retention" / "broker1", "/retention")
    assert rows_of(page, "now")[0]["removed"] == "The broker removes them at its next check, every 5 minutes."


def test_a_topic_of_a_running_broker(held: Path) -> None:
    [row] = rows_of(read_page(held, "/topics/half"), "partitions")
    assert (row["role"], row["log_end"]) == ("leader", 80)
    assert section_of(read_page(held, "/topics/half"), "settings").table is not None


def test_a_report_that_is_being_made() -> None:
    progress = JobProgress(begun_ms=1000)
    progress.expect(5000, "logs")
    progress.advance(1234)
    html = running_html("reading", progress, 91_000, "/retention")
    assert "1,234 logs of 5,000 logs" in html
    assert "Started 1 minute 30 seconds ago." in html
    progress.expect(2048)
    assert "1.2 KiB of 2.0 KiB" in running_html("reading", progress, 91_000, "/retention")
