"""Java's hash of a text."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tidelog.protocol import java_hash
from tidelog.protocol.java_hash import string_hash


def plain_hash(text: str) -> int:
    """Compute Java's ``String.hashCode`` one code unit at a time."""
    units = text.encode("utf-16-be")
    value = 0
    for index in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[index : index + 2], "big")) % 2**32
    return value


@given(st.text(max_size=200), st.text(max_size=5), st.sampled_from([0, 1, 2, 70]))
def test_any_text(text: str, end: str, times: int) -> None:
    """Texts are short and long, and contain characters of two code units."""
    assert string_hash(text * times + end) == plain_hash(text * times + end)


def test_a_long_text_takes_few_steps() -> None:
    steps = 0

    def count(frame: FrameType, event: str, _argument: Any) -> Any:
        nonlocal steps
        if frame.f_code.co_filename != java_hash.__file__:
            return None
        steps += event == "line"
        return count

    text = "\U0001f600x" * 10_000
    before = sys.gettrace()
    sys.settrace(count)
    try:
        found = string_hash(text)
    finally:
        sys.settrace(before)
    assert found == plain_hash(text)
    assert 0 < steps < 100
