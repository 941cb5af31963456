"""CONTRIBUTING.md: each recipe lists files that exist and that contain the recipe's example."""

from __future__ import annotations

import re

import pytest

from project.tree import ROOT

PAGE = (ROOT / "CONTRIBUTING.md").read_text()
RECIPES = {
    part.partition("\n")[0]: part for part in PAGE.partition("## Recipes")[2].partition("\n## ")[0].split("\n### ")[1:]
}


def test_there_is_a_recipe_for_each_kind_of_change() -> None:
    assert set(RECIPES) == {"A configuration key", "An API", "A kind of file", "A Spark option"}


@pytest.mark.parametrize("name", RECIPES)
def test_every_file_of_a_recipe_names_its_example(name: str) -> None:
    recipe = RECIPES[name]
    (line,) = re.findall(r"^Example: (.+)$", recipe, flags=re.MULTILINE)
    spellings = re.findall("`(.+?)`", line)
    files = re.findall(r"^\| `(.+?)` \| .+ \|$", recipe, flags=re.MULTILINE)
    assert len(files) >= 4
    for file in files:
        text = (ROOT / file).read_text()
        assert any(spelling in file + text for spelling in spellings), f"{file} does not name {line}"


@pytest.mark.parametrize("name", RECIPES)
def test_every_path_of_a_recipe_exists(name: str) -> None:
    paths = re.findall(r"`((?:src|tests|docs)/[^`]+)`", RECIPES[name])
    assert [path for path in paths if not (ROOT / path).exists()] == []
