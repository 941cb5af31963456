"""Properties files as Java loads and stores them, and the line of each property."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.config.java_properties import Property, comments, load_properties, properties, store_line


def test_properties_as_java_loads_them() -> None:
    text = "\n".join(
        [
            "# a comment = no key",
            "  ! another",
            "plain=value",
            "  spaced : out   ",
            "tab\tvalue",
            "empty",
            "also.empty=",
            "long=one\\",
            "     two\\\\",
            "key\\ with\\:marks = \\u0041\\t\\q",
            "twice=1",
            "twice=2",
            "last=ends\\",
        ]
    )
    assert load_properties(text) == {
        "plain": "value",
        "spaced": "out   ",
        "tab": "value",
        "empty": "",
        "also.empty": "",
        "long": "onetwo\\",
        "key with:marks": "A\tq",
        "twice": "2",
        "last": "ends",
    }
    assert comments(text) == [" a comment = no key", " another"]


@given(st.text(max_size=20), st.text(max_size=20))
def test_properties_round_trip(key: str, value: str) -> None:
    assert load_properties(store_line(key, value)) == {key: value} or not key


def test_lines_of_properties() -> None:
    text = "# head\r\none=1\r\rtwo = a\\\n  b\\\n  c\n\n\nthree\n"
    assert list(properties(text)) == [Property("one", "1", 2), Property("two", "abc", 4), Property("three", "", 9)]


def test_malformed_escape() -> None:
    with pytest.raises(ValueError, match=r"^line 2: malformed \\u escape$"):
        load_properties("a=1\nb=\\u12")


@given(st.text(max_size=60))
def test_any_text_is_read(text: str) -> None:
    try:
        found = list(properties(text))
    except ValueError as error:
        assert "malformed" in str(error)  # noqa: PT017
        return
    assert all(1 <= entry.line <= len(text) + 1 for entry in found)
    assert load_properties(text) == {entry.key: entry.value for entry in found}
