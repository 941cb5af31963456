"""docs/inspector.md: every question has a picture, and a URL that responds."""

from __future__ import annotations

from pathlib import Path

import pytest
from inspector_pictures import PAGE, PICTURES, Example, directories_of, examples

from tidelog.web.page_json import page_json
from tidelog.web.routes import ROUTES
from web.harness import read_page

EXAMPLES = examples()


def test_every_question_has_a_picture() -> None:
    text = PAGE.read_text()
    questions = text.partition("## Questions that people ask")[2].partition("\n## ")[0].count("\n### ")
    assert questions == len(EXAMPLES) >= 10
    assert {f"{one.name}.png" for one in EXAMPLES} == {path.name for path in PICTURES.iterdir()}


@pytest.mark.parametrize("one", EXAMPLES, ids=[one.name for one in EXAMPLES])
def test_the_url_of_a_question_responds(one: Example, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in directories_of(one, tmp_path)]
    found = page_json(read_page(paths, one.url))
    assert any(section.get("rows") or section.get("picture") for section in found["sections"].values())
    if one.damage is not None:
        errors = [row for row in found["sections"]["findings"]["rows"] if row["severity"] == "error"]
        assert one.damage[0].endswith(errors[0]["file"])


def test_the_page_names_every_route() -> None:
    """A route of one log or group stands in a row with others, or in the row of all logs."""
    text = PAGE.read_text()
    for route in ROUTES:
        first = route.pattern.split("/")[1]
        assert f"/{first}" in text, route.pattern
