"""Pages in a real Chromium: accessibility, console messages, requests, widths, and the numbers in the document.

The browser is Debian's ``chromium``, driven by Playwright. It needs no network.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from web.harness import CHROMIUM

WIDE, NARROW = 1280, 375
Theme = Literal["light", "dark"]
CONTRAST = "color-contrast"
_BRIEF = {"exclude": [["tbody tr:nth-child(n+9)"]]}
"""The rows of a table are alike, and the check of colours takes seconds for a long one."""

_READ = """() => {
  for (const details of document.querySelectorAll('details')) details.open = true;
  const sections = {};
  for (const section of document.querySelectorAll('main section[id]')) {
    sections[section.id] = {
      rows: [...section.querySelectorAll('tbody tr')].filter(row => row.checkVisibility()).length,
      items: [...section.querySelectorAll('svg [data-item]')].map(mark => mark.dataset.item),
    };
  }
  return {
    title: document.title,
    headings: [...document.querySelectorAll('h1')].filter(one => one.checkVisibility()).length,
    outside: [...document.querySelectorAll('main svg text')].filter(text => {
      const [inner, outer] = [text, text.ownerSVGElement].map(one => one.getBoundingClientRect());
      return inner.left < outer.left - 1 || inner.right > outer.right + 1
        || inner.top < outer.top - 1 || inner.bottom > outer.bottom + 1;
    }).map(text => text.textContent),
    small: [...document.querySelectorAll('svg text')]
      .filter(text => parseFloat(getComputedStyle(text).fontSize) < 11).map(text => text.textContent),
    sections,
  };
}"""
_OVERFLOW = """() => {
  if (document.documentElement.scrollWidth <= window.innerWidth) return [];
  const wide = [...document.body.querySelectorAll('*')].filter(element =>
    element.getBoundingClientRect().right > window.innerWidth + 1 && !element.closest('.scroll, .picture'));
  return ['page'].concat(wide.slice(0, 3).map(element => element.outerHTML.slice(0, 120)));
}"""
_IS_READY = "() => !document.body.dataset.reload"
_IS_NO_PROGRESS = "() => document.querySelector('h1').textContent.trim() !== 'Reading'"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Start the browser. The sandbox needs a kernel feature that containers lack."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()


@dataclass
class Tab:
    """A tab that opens pages of one inspector. ``seen`` has the errors of the browser since the last page."""

    page: Page
    base: str
    seen: list[str] = field(default_factory=list)
    is_live: bool = False

    @classmethod
    def open_in(cls, browser: Browser, base: str, theme: Theme = "light", *, is_live: bool = False) -> Tab:
        """Open a tab for the inspector with the address ``base``. ``is_live``: pages load themselves again for ever."""
        context = browser.new_context(color_scheme=theme, viewport={"width": WIDE, "height": 900})
        tab = cls(context.new_page(), base, is_live=is_live)
        tab.page.on("console", tab._on_console)
        tab.page.on("pageerror", lambda error: tab.seen.append(f"an error of a script: {error}"))
        tab.page.on("request", tab._on_request)
        tab.page.on("requestfailed", tab._on_failure)
        return tab

    def go(self, url: str) -> int:
        """Open a page, and wait until its report is ready. Return the status of the first response."""
        self.seen.clear()
        response = self.page.goto(self.base + url, wait_until="load")
        self.page.wait_for_function(_IS_NO_PROGRESS if self.is_live else _IS_READY, timeout=120_000)
        assert response is not None
        return response.status

    def problems(self, url: str, found: Mapping[str, Any], *, is_brief: bool) -> list[str]:
        """Open a page, and compare it with its JSON. Return a sentence for each defect except those of colours."""
        self.go(url)
        return self.differences(found) + self.defects(is_brief=is_brief)

    def differences(self, found: Mapping[str, Any]) -> list[str]:
        """Compare the open page with its JSON."""
        return list(_differences(self.page.evaluate(_READ), found))

    def defects(self, *, is_brief: bool) -> list[str]:
        """Return the defects of the open page that can be seen without its JSON, except those of colours."""
        wrong = self.violations({"rules": {CONTRAST: {"enabled": False}}}, is_brief=is_brief)
        self.page.set_viewport_size({"width": NARROW, "height": 900})
        overflow = self.page.evaluate(_OVERFLOW)
        if overflow:
            wrong.append(f"it is wider than {NARROW} pixels: {overflow[1:]}")
        self.page.set_viewport_size({"width": WIDE, "height": 900})
        return wrong + self.seen

    def faint_colours(self, *, is_brief: bool) -> list[str]:
        """Return the texts of the open page without enough contrast."""
        return self.violations({"runOnly": {"type": "rule", "values": [CONTRAST]}}, is_brief=is_brief)

    def violations(self, options: Mapping[str, Any] | None = None, *, is_brief: bool = False) -> list[str]:
        """Return axe-core's violations on the open page. ``is_brief`` leaves out all but the first rows of tables."""
        response = (
            Axe()
            .run(
                self.page,
                context=_BRIEF if is_brief else None,
                options={"resultTypes": ["violations"], **(options or {})},
            )
            .response
        )
        return [
            f"axe {violation['id']}: {violation['help']}: {[node['html'][:160] for node in violation['nodes'][:2]]}"
            for violation in response["violations"]
        ]

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.seen.append(f"console {message.type}: {message.text}")

    def _on_failure(self, request: Request) -> None:
        if request.failure != "net::ERR_ABORTED":  # the next page was opened before an icon had arrived
            self.seen.append(f"no response: {request.url} {request.failure}")

    def _on_request(self, request: Request) -> None:
        if urlsplit(request.url)[:2] != urlsplit(self.base)[:2]:
            self.seen.append(f"a request to another host: {request.url}")


def _differences(read: Mapping[str, Any], found: Mapping[str, Any]) -> Iterator[str]:
    if not read["title"].removesuffix("· tidelog").strip():
        yield "there is no title"
    if read["headings"] != 1:
        yield f"{read['headings']} headings of the first level are visible"
    if read["outside"]:
        yield f"texts that reach beyond their pictures: {read['outside'][:3]}"
    if read["small"]:
        yield f"texts below 11 pixels: {read['small'][:3]}"
    for name, section in read["sections"].items():
        expected = found["sections"].get(name, {})
        if section["rows"] != len(expected.get("rows", [])):
            yield f"{section['rows']} rows of {name} are visible, and the JSON has {len(expected.get('rows', []))}"
        if [json.loads(item) for item in section["items"]] != expected.get("picture", []):
            yield f"the picture of {name} has other numbers than the JSON"
