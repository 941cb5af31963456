"""Pages of the inspector as pictures: ``tidelog web`` serves a directory, and Chromium saves its pages as PNG."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from steps import say

WIDTH, HEIGHT = 1180, 820


def missing_browser() -> str | None:
    """Return a sentence about the missing piece, or None if pictures can be made."""
    if shutil.which("chromium") is None:
        return "Chromium is not installed, so no pictures are made of these pages."
    if importlib.util.find_spec("playwright") is None:
        return "The package playwright is not installed, so no pictures are made of these pages."
    return None


def save_pages(directory: Path, pages: Mapping[str, str], workspace: Path) -> None:
    """Save pages of a directory as pictures. ``pages`` has the URL of each picture by its file's name."""
    missing = missing_browser()
    say(f"[bold cyan]$ tidelog web {directory}")
    with _serving(directory) as base:
        if missing is not None:
            say(missing)
            for url in pages.values():
                say(base + url)
            return
        from playwright.sync_api import sync_playwright

        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
            page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT})
            for name, url in pages.items():
                page.goto(base + url)
                page.wait_for_selector("h1:not(:text-is('Reading'))")  # a long report: the page loads itself again
                page.screenshot(path=workspace / name)
                say(f"wrote {workspace / name}  [dim]{url}[/dim]")
            browser.close()


@contextmanager
def _serving(directory: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "tidelog", "web", str(directory), "--bind", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        yield process.stderr.readline().split()[-1].rstrip("/")
    finally:
        process.terminate()
        process.wait()
