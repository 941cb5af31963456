"""``scripts/english.py`` finds nothing, except in the files that ``english_exceptions.txt`` lists."""

from __future__ import annotations

from pathlib import Path

import pytest

from project.tree import load, project_files

ENGLISH = load("scripts/english.py")
PATHS = {str(path) for path in project_files() if ENGLISH.is_checked(path)}
UNFINISHED = set(ENGLISH.EXCEPTIONS.read_text().split())


def test_no_finished_file_breaks_a_rule() -> None:
    found = [str(finding) for path in sorted(PATHS - UNFINISHED) for finding in ENGLISH.findings(Path(path))]
    assert not found, "\n".join(found)


def test_the_list_of_unfinished_files_only_shrinks() -> None:
    """A file that was put right leaves the list; a new file never enters it."""
    assert UNFINISHED <= PATHS
    clean = [path for path in sorted(UNFINISHED) if not ENGLISH.findings(Path(path))]
    assert not clean, "take these files off the list"


@pytest.mark.parametrize(
    ("kind", "text", "problem"),
    [
        ("function", "Of the next record.", "not with a verb in the imperative"),
        ("attribute", "Of the next record.", "begins with 'Of'"),
        ("attribute", "What the client sent.", "begins with 'What'"),
        ("class", "A log. Never with a lock around it.", "no verb in"),
        ("test", "Records after a kill, every one.", "no verb in"),
        ("comment", "the waiter is told", "purgatory"),
        ("message", "the log was not stopped in order", "in order"),
        ("page", "Nobody answers.", "'Nobody'"),
        ("module", "A log. Called by: the broker.", "Called by"),
        ("class", "A log " + "that is long " * 12 + "ends.", "words in a sentence"),
    ],
)
def test_a_rule_finds(kind: str, text: str, problem: str) -> None:
    assert any(problem in found for found in ENGLISH.problems(ENGLISH.Text(1, kind, text)))


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("function", "Return the next record's offset. Raise ClosedError if the log is closed."),
        ("attribute", "The next record's timestamp in ms."),
        ("property", "True if the log accepts appends."),
        ("module", "The index of a segment. Thread rule: any thread. Source: Kafka's ``OffsetIndex``, KIP-32."),
        ("class", "The states of a log:\n\n======  =====\nopen    Of it\n======  =====\n\nA closed log stays closed."),
        ("test", "A closed log refuses appends."),
        ("page", "`in order` is code, and a power cut is a power cut."),
    ],
)
def test_a_rule_accepts(kind: str, text: str) -> None:
    assert list(ENGLISH.problems(ENGLISH.Text(1, kind, text))) == []
