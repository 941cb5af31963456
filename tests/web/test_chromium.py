"""The inspector in a real Chromium: waiting, signing in, the keyboard, and foreign pages."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tidelog.web.pages import cluster
from web.chromium import Tab
from web.harness import serving

pytestmark = pytest.mark.browser

PATIENCE_S = 120


def test_the_page_of_a_long_report_loads_itself_again(
    browser: Browser, small_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on = threading.Event()

    def survey(*_arguments: object) -> list[object]:
        assert go_on.wait(PATIENCE_S)
        return []

    monkeypatch.setattr(cluster, "survey_space", survey)
    with serving(small_dir) as served:
        tab = Tab.open_in(browser, served.base)
        try:
            tab.page.goto(f"{served.base}/count")
            tab.page.wait_for_selector("h1:text-is('Reading')")
            assert tab.violations() == []
        finally:
            go_on.set()
        tab.page.wait_for_selector("h1 bdi:text-is('Exact counts')", timeout=PATIENCE_S * 1000)
        assert tab.seen == []
        tab.page.context.close()


def test_a_visitor_signs_in(browser: Browser, small_dir: Path) -> None:
    with serving(small_dir, token="a secret", wait_seconds=60) as served:
        tab = Tab.open_in(browser, served.base)
        tab.page.goto(f"{served.base}/?topic=ord")
        assert tab.violations() == []
        tab.page.get_by_label("Token").fill("wrong")
        tab.page.get_by_role("button", name="Sign in").click()
        assert tab.page.get_by_role("alert").inner_text() == "This token is wrong."
        tab.page.goto(f"{served.base}/?topic=ord")
        tab.page.get_by_label("Token").fill("a secret")
        tab.page.get_by_role("button", name="Sign in").click()
        tab.page.wait_for_selector("h1 bdi:text-is('Log directory')")
        assert tab.page.url == f"{served.base}/?topic=ord"
        [cookie] = tab.page.context.cookies()
        assert cookie["httpOnly"]
        assert cookie["sameSite"] == "Strict"
        others = [one for one in tab.seen if "401" not in one]  # Chromium reports the refused requests
        assert others == []
        tab.page.context.close()


def test_a_page_can_be_used_with_the_keyboard(browser: Browser, small_dir: Path) -> None:
    with serving(small_dir, wait_seconds=60) as served:
        tab = Tab.open_in(browser, served.base)
        tab.go("/")
        tab.page.keyboard.press("Tab")
        assert tab.page.evaluate("document.activeElement.textContent") == "Skip to the content"
        tab.page.keyboard.press("Enter")
        assert tab.page.evaluate("document.activeElement.id") == "content"
        reached = set()
        for _ in range(40):
            tab.page.keyboard.press("Tab")
            reached.add(tab.page.evaluate("document.activeElement.getAttribute('href')"))
        assert {"/topics/orders", "/logs/0", "/index.json"} <= reached
        tab.page.context.close()


def test_a_foreign_page_can_neither_frame_nor_read_a_page(browser: Browser, small_dir: Path) -> None:
    with serving(small_dir, wait_seconds=60) as served, serving(small_dir, wait_seconds=60) as other:
        page = browser.new_context(bypass_csp=True).new_page()
        page.goto(f"{other.base}/")
        framed = page.evaluate(
            """base => new Promise(resolve => {
                const frame = document.createElement('iframe');
                frame.onload = () => resolve(frame.contentDocument === null);
                frame.src = base + '/';
                document.body.append(frame);
            })""",
            served.base,
        )
        assert framed is True
        assert page.frames[1].url.startswith("chrome-error:")  # Chromium's own page about the refusal
        read = page.evaluate("base => fetch(base + '/index.json').then(() => 'read', error => 'refused')", served.base)
        assert read == "refused"
        page.context.close()
