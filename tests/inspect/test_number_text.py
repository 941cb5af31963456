"""Lines that are formatted in bulk equal lines from f-strings."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.inspect.dump.number_text import Choice, line_text

int64s = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-12, 12),
    st.sampled_from([0, -1, 9, 10, 9_999, 10_000, 10**18, 10**18 - 1, 2**63 - 1, -(2**63)]),
)


@given(rows=st.lists(st.tuples(int64s, st.integers(0, 2), int64s), max_size=30))
def test_lines(rows: list[tuple[int, int, int]]) -> None:
    texts = ["", "b", "a longer one"]
    left, chosen, right = (np.array(column, np.int64) for column in (zip(*rows, strict=True) if rows else ((), (), ())))
    made = line_text(len(rows), ["| ", left, " ", Choice(chosen, texts), ":", right, "\n"])
    expected = [f"| {a} {texts[which]}:{b}\n" for a, which, b in rows]
    assert made.text == "".join(expected)
    assert made.lines() == expected
    bounds = np.array([0, len(rows) // 2, len(rows)])
    assert made.between(bounds) == ["".join(expected[: len(rows) // 2]), "".join(expected[len(rows) // 2 :])]


def test_no_parts() -> None:
    assert line_text(3, []).lines() == ["", "", ""]
