"""The small script that follows a growing log, in Chromium, while tidelog writes into the directory."""

from __future__ import annotations

import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect, sync_playwright

from tidelog.api import open_log
from web.harness import CHROMIUM

HOSTILE = "<img src=x onerror=window.harmed=1><script>window.harmed=1</script>\u202etxt\0\u00a0\U000e0001 <b>"
SHOWN = r"<img src=x onerror=window.harmed=1><script>window.harmed=1</script>\u202etxt\x00\xa0\U000e0001 <b>"
PATH = "/logs/0/live-0/records?follow=1&until=log_end&limit=5"
ROWS = "#records tbody tr"
pytestmark = [pytest.mark.heavy, pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")]


@contextmanager
def inspecting(root: Path) -> Iterator[str]:
    """Serve the pages of a directory in a process of its own, so that it sees that the test holds the directory."""
    command = [sys.executable, "-m", "tidelog", "web", str(root), "--bind", "127.0.0.1:0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        found = re.search(r"http://[^/\s]+", process.stderr.readline())
        assert found
        try:
            _wait_until_reachable(found[0])
            yield found[0]
        finally:
            process.terminate()


def _wait_until_reachable(base: str) -> None:
    for _ in range(200):
        try:
            urllib.request.urlopen(base).close()
            return
        except urllib.error.URLError:
            time.sleep(0.05)


@contextmanager
def browsing(*, javascript: bool = True) -> Iterator[tuple[Page, list[str]]]:
    """Open a page in Chromium, with the list of its console messages, errors and requests to elsewhere."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_context(java_script_enabled=javascript).new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("requestfailed", lambda request: complaints.append(request.url))
        try:
            yield page, complaints
        finally:
            browser.close()


def test_new_records_appear_as_text_until_a_pause(tmp_path: Path) -> None:
    with open_log(tmp_path / "live-0") as log, inspecting(tmp_path) as base, browsing() as (page, complaints):
        for number in range(8):
            log.append(b"old-%d" % number, b"k")
        page.goto(base + PATH)
        rows = page.locator(ROWS)
        assert rows.count() == 5
        assert rows.first.locator("td").first.inner_text() == "3"
        log.append(HOSTILE.encode(), b"hostile", headers=[("h", b"\xff")], timestamp=1_700_000_000_123)
        log.append(None, b"gone")
        expect(page.locator(ROWS)).to_have_count(7, timeout=15_000)
        cells = [cell.inner_text() for cell in rows.nth(5).locator("td").all()]
        page.reload()
        served = [cell.inner_text() for cell in rows.nth(3).locator("td").all()]
        assert cells == served
        assert SHOWN in cells
        assert "2023-11-14 22:13:20.123 UTC" in cells
        assert page.evaluate("window.harmed") is None
        link = rows.nth(3).locator("a").first.get_attribute("href")
        assert link == "/logs/0/live-0/segments/0/batches/" + re.findall(r"batches/(\S+)", link or "")[0]

        button = page.get_by_role("button", name="Pause")
        button.click()
        assert page.get_by_role("status").inner_text() == "Paused."
        log.append(b"while-paused", b"k")
        page.wait_for_timeout(2500)
        assert rows.count() == 5
        page.get_by_role("button", name="Continue").click()
        expect(page.locator(ROWS)).to_have_count(6, timeout=15_000)
        assert "1 new records" in page.get_by_role("status").inner_text()
        assert "while-paused" in rows.nth(5).inner_text()
        assert not complaints


def test_many_records_arrive_once_each_and_old_rows_go(tmp_path: Path) -> None:
    with open_log(tmp_path / "live-0") as log, inspecting(tmp_path) as base, browsing() as (page, complaints):
        log.append(b"first", b"k")
        page.goto(base + PATH)
        for start in range(0, 2400, 300):
            log.append_batch([b"v-%d" % number for number in range(start, start + 300)])
        expect(page.locator(f"{ROWS}:last-child td").first).to_have_text("2400", timeout=30_000)
        offsets = page.eval_on_selector_all(
            f"{ROWS} td:first-child", "cells => cells.map(cell => Number(cell.innerText))"
        )
        assert offsets == list(range(1401, 2401))
        assert not complaints


def test_a_page_that_begins_without_records(tmp_path: Path) -> None:
    with open_log(tmp_path / "live-0") as log, inspecting(tmp_path) as base, browsing() as (page, complaints):
        page.goto(base + PATH)
        assert page.locator(ROWS).count() == 0
        log.append(b"now", b"k")
        expect(page.locator(ROWS)).to_have_count(1, timeout=15_000)
        assert not complaints


def test_the_server_that_ends_is_reported(tmp_path: Path) -> None:
    with open_log(tmp_path / "live-0") as log, browsing() as (page, _complaints):
        log.append(b"now", b"k")
        with inspecting(tmp_path) as base:
            page.goto(base + PATH)
        expect(page.get_by_role("status")).to_contain_text("cannot be reached", timeout=15_000)


def test_without_scripts_the_page_loads_itself_again(tmp_path: Path) -> None:
    with open_log(tmp_path / "live-0") as log, inspecting(tmp_path) as base, browsing(javascript=False) as (page, _all):
        log.append(b"old", b"k")
        page.goto(base + PATH)
        assert page.locator(ROWS).count() == 1
        log.append(b"new", b"k")
        page.locator(ROWS).nth(1).wait_for(timeout=15_000)
        assert "new" in page.locator("#records tbody").inner_text()
