"""The stubs of messages agree with kio's classes: ``scripts/message_types.py`` would write the same."""

from __future__ import annotations

from project.tree import load

MESSAGE_TYPES = load("scripts/message_types.py")


def test_the_stubs_are_current() -> None:
    stubs = MESSAGE_TYPES.stubs()
    assert sorted(stubs) == sorted(MESSAGE_TYPES.FOLDER.iterdir()), "run `make map`"
    assert [path.name for path, text in stubs.items() if path.read_text() != text] == [], "run `make map`"
