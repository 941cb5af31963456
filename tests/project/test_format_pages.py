"""Each byte example in docs/format equals the bytes in the file that it names, with their meaning."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from project.format_pages import Example, examples
from tidelog.mirroring.target.mirror_properties import MirrorProperties
from tidelog.record.internal_records.group_tables import GROUP_TYPES

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "format").glob("*.md"))
EXAMPLES = [example for page in PAGES for example in examples(page)]
PROSE_PAGES = {"README", "log-segment"}
OWN_PAGE = next(page for page in PAGES if page.stem == "mirror-properties")
"""The page of a file that tidelog writes and no broker."""


def golden_file(golden: Callable[..., Path], file: str) -> bytes:
    set_name, kind, path = file.split("/", 2)
    return (golden(set_name, kind) / path).read_bytes()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_page_of_a_file_kind_has_an_example(page: Path) -> None:
    assert page.stem in PROSE_PAGES or page == OWN_PAGE or any(example.page == page for example in EXAMPLES)


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: f"{example.page.stem}:{example.file}")
def test_an_example_is_what_stands_in_the_file(golden: Callable[..., Path], example: Example) -> None:
    data = golden_file(golden, example.file)
    if example.text is not None:
        assert data.decode().removesuffix("\n") == example.text
        return
    end = example.position + len(example.data)
    assert data[example.position : end].hex(" ") == example.data.hex(" ")
    for field in example.fields:
        assert field.decoded() == field.value, f"{field.name} of {example.page.name}"


def test_the_example_of_the_mirrors_file_is_what_a_mirror_writes() -> None:
    (example,) = re.findall(r"^```text\n(.+?)^```$", OWN_PAGE.read_text(), flags=re.MULTILINE | re.DOTALL)
    assert MirrorProperties.parse(example.encode()).to_bytes().decode() == example


def test_the_page_of_consumer_offsets_names_every_type_there_is() -> None:
    text = next(page for page in PAGES if page.stem == "consumer-offsets").read_text()
    named: set[int] = set()
    for row in re.findall(r"^\| ([\d, –]+) \|", text, flags=re.MULTILINE):
        for part in row.split(","):
            first, _, last = part.strip().partition("–")
            named.update(range(int(first), int(last or first) + 1))
    assert set(GROUP_TYPES) <= named
