"""The simulation prints the stories of docs/replication.md."""

from __future__ import annotations

import re

import pytest

from simulation.faults import FAULTS
from simulation.page import PAGE, STORY, told

_TEXT = PAGE.read_text()
_STORIES = list(STORY.finditer(_TEXT))
_OF_FAULTS = [found for found in _STORIES if found["fault"]]


def _command(found: re.Match[str]) -> str:
    return found["command"]


def test_the_page_has_a_story_for_each_rule() -> None:
    rules = _TEXT.partition("## The rules, with their stories")[2].partition("\n## ")[0]
    assert len(_STORIES) == rules.count("\n### ") == rules.count("```text")


@pytest.mark.parametrize("found", _STORIES, ids=_command)
def test_a_story_is_the_printed_one(found: re.Match[str]) -> None:
    text, is_broken = told(found)
    assert text == found["story"], "python -m simulation.page updates the stories"
    assert is_broken == (found["fault"] is not None)


@pytest.mark.parametrize("found", _OF_FAULTS, ids=_command)
def test_the_rule_itself_keeps_the_invariants(found: re.Match[str]) -> None:
    assert told(found, with_fault=False)[1] is False


def test_the_named_faults_exist() -> None:
    assert set(re.findall(r"FAULT=([a-z-]+)", _TEXT)) <= {*FAULTS, "list"}
