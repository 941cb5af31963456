"""Make the pictures of docs/inspector.md again: ``make inspector-pictures``, which needs Chromium.

Below each picture of the page stands its URL with the golden directories that it shows. They are unpacked,
``tidelog web`` serves them, and Chromium saves the page as docs/inspector/NAME.png.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from golden_sets import unpack

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "inspector.md"
PICTURES = ROOT / "docs" / "inspector"
WIDTH, HEIGHT = 1180, 1000
_EXAMPLE = re.compile(
    r"^!\[(?P<title>[^\]]+)\]\(inspector/(?P<name>[a-z-]+)\.png\)\n\n`(?P<url>/[^`]*)` of (?P<sets>.+)$", re.M
)
_DAMAGE = re.compile(r" with byte (?P<position>[0-9]+) of `(?P<file>[^`]+)` changed$")
_SET = re.compile(r"`(?P<name>[a-z0-9.-]+)/(?P<kind>[a-z-]+)(?P<inner>(?:/[a-z0-9]+)?)`")


@dataclass(frozen=True, slots=True)
class Example:
    """A picture of the page: its name, the URL, and the golden directories as (set, kind, directory in it)."""

    name: str
    url: str
    directories: tuple[tuple[str, str, str], ...]
    damage: tuple[str, int] | None = None
    """A file of the first directory, and the position of a byte in it that is changed first."""


def examples() -> list[Example]:
    """Return the examples of docs/inspector.md."""
    found = []
    for example in _EXAMPLE.finditer(PAGE.read_text()):
        damage = _DAMAGE.search(example["sets"])
        sets = _SET.finditer(_DAMAGE.sub("", example["sets"]))
        directories = tuple((one["name"], one["kind"], one["inner"].strip("/")) for one in sets)
        changed = None if damage is None else (damage["file"], int(damage["position"]))
        found.append(Example(example["name"], example["url"], directories, changed))
    return found


def directories_of(example: Example, workspace: Path) -> list[str]:
    """Unpack the golden sets of an example, and return its log directories, relative to the workspace."""
    found = []
    for name, kind, inner in example.directories:
        directory = f"{name}/{kind}/{inner}".rstrip("/")
        if not (workspace / directory).exists():
            unpack(name, kind, workspace / name)
        found.append(directory)
    if example.damage is not None:
        file, position = example.damage
        path = workspace / found[0] / file
        data = bytearray(path.read_bytes())
        data[position] ^= 0xFF
        path.write_bytes(data)
    return found


@contextmanager
def serving(directories: Sequence[str], workspace: Path) -> Iterator[str]:
    """Run ``tidelog web`` in the workspace, so that pages show relative paths, and yield its address."""
    command = [sys.executable, "-m", "tidelog", "web", *directories, "--bind", "127.0.0.1:0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=workspace)
    try:
        assert process.stderr is not None
        yield process.stderr.readline().split()[-1].rstrip("/")
    finally:
        process.terminate()
        process.wait()


def main() -> None:
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium")
    if chromium is None:
        sys.exit("Chromium is not installed (Debian: apt-get install chromium).")
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as name, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        for number, example in enumerate(examples()):
            workspace = Path(name) / str(number)  # an example may change its copy
            with serving(directories_of(example, workspace), workspace) as base:
                page.goto(base + example.url)
                page.wait_for_selector("h1:not(:text-is('Reading'))")
                page.screenshot(path=PICTURES / f"{example.name}.png")
                print(f"docs/inspector/{example.name}.png  {example.url}")
        browser.close()


if __name__ == "__main__":
    main()
