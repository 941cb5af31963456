"""Query parameters: checks with exact bounds, and sorting and paging compared with plain lists."""

from __future__ import annotations

from urllib.parse import urlencode

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.model import ConfigError
from tidelog.web.page import Row
from tidelog.web.query import Query

LONG = 2**63 - 1
rows = st.lists(st.fixed_dictionaries({"size": st.none() | st.integers(-5, 5), "name": st.text("ab", max_size=3)}))
KEYS = {"size": lambda row: row["size"], "name": lambda row: row["name"]}


def model_of_order(given: list[Row], order: str) -> list[Row]:
    """Return the rows in an order: stable, ``-`` descends, and rows without a value come last."""
    if not order:
        return given
    column = order.removeprefix("-")
    valued = [row for row in given if row[column] is not None]
    valued.sort(key=lambda row: row[column], reverse=order.startswith("-"))  # type: ignore[arg-type, return-value]
    return valued + [row for row in given if row[column] is None]


@given(rows, st.sampled_from(["", "size", "-size", "name", "-name"]), st.integers(1, 7), st.integers(1, 9))
def test_pages_are_slices_of_the_ordered_rows(given: list[Row], order: str, size: int, number: int) -> None:
    query = Query({"t.sort": order, "t.size": str(size), "t.page": str(number)})
    shown, paging = query.paged("t", given, keys=KEYS, size=3)
    ordered = model_of_order(given, order)
    pages = [ordered[start : start + size] for start in range(0, len(ordered), size)] or [[]]
    assert (paging.total, paging.size, paging.pages, paging.sort) == (len(given), size, len(pages), order)
    assert paging.number == min(number, len(pages))
    assert shown == pages[paging.number - 1]
    assert query.unused() == []


@given(rows, st.sampled_from(["", "-size"]))
def test_all_pages_together_have_each_row_once(given: list[Row], order: str) -> None:
    found: list[Row] = []
    number, pages = 1, 1
    while number <= pages:
        shown, paging = Query({"t.page": str(number)}).paged("t", given, keys=KEYS, sort=order, size=2)
        found += shown
        number, pages = number + 1, paging.pages
    assert found == model_of_order(given, order)


def test_the_defaults_of_a_table() -> None:
    given = [{"a": number} for number in range(250)]
    shown, paging = Query().paged("t", given)
    assert (shown, paging.number, paging.size, paging.pages) == (given[:100], 1, 100, 3)
    assert given == [{"a": number} for number in range(250)]  # the rows of the caller stay in their sequence


@pytest.mark.parametrize(
    ("parameters", "words"),
    [
        ({"t.sort": "other"}, "must be one of: size, name, or -COLUMN"),
        ({"t.sort": "--size"}, "must be one of: size, name"),
        ({"t.sort": "-"}, "must be one of: size, name"),
        ({"t.page": "0"}, "from 1"),
        ({"t.page": "-1"}, "from 1"),
        ({"t.page": "1.0"}, "whole number"),
        ({"t.page": "1e3"}, "whole number"),
        ({"t.page": "٣"}, "whole number"),
        ({"t.page": " 1"}, "whole number"),
        ({"t.page": "+1"}, "whole number"),
        ({"t.page": "1_0"}, "whole number"),
        ({"t.page": "9" * 4400}, "more than 1024 characters"),
        ({"t.page": str(LONG + 1)}, f"to {LONG}"),
        ({"t.size": "0"}, "from 1 to 1000"),
        ({"t.size": "1001"}, "from 1 to 1000"),
    ],
)
def test_wrong_parameters_of_a_table(parameters: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Query(parameters).paged("t", [{"size": 1, "name": ""}], keys=KEYS)


def test_a_table_without_sortable_columns() -> None:
    with pytest.raises(ConfigError, match="must be one of: none"):
        Query({"t.sort": "size"}).paged("t", [1, 2])


@given(st.integers(-(2**70), 2**70), st.integers(-100, 100), st.integers(-100, 100))
@example(LONG, 0, LONG)
@example(-LONG, -LONG, LONG)
def test_numbers_within_bounds(number: int, low: int, high: int) -> None:
    query = Query({"n": str(number)})
    if low <= number <= high:
        assert query.integer("n", 7, minimum=low, maximum=high) == number
    else:
        with pytest.raises(ConfigError, match=f"the parameter n must be a whole number from {low} to {high}"):
            query.integer("n", 7, minimum=low, maximum=high)


def test_missing_and_empty_parameters_have_the_default() -> None:
    for query in (Query(), Query({"n": "", "c": "", "t": "", "f": ""})):
        assert query.integer("n", -1) == -1
        assert query.choice("c", ["a", "b"], "b") == "b"
        assert query.text("t", "x") == "x"
        assert query.flag("f") is False


def test_choices_and_flags() -> None:
    query = Query({"c": "b", "f": "1", "g": "0", "h": "yes"})
    assert query.choice("c", ["a", "b"], "a") == "b"
    assert (query.flag("f"), query.flag("g")) == (True, False)
    for ask in (lambda: query.choice("c", ["a"], "a"), lambda: query.flag("h")):
        with pytest.raises(ConfigError, match="must be one of: "):
            ask()


def test_a_long_text_is_refused() -> None:
    assert len(Query({"t": "x" * 1024}).text("t")) == 1024
    with pytest.raises(ConfigError, match="the parameter t has more than 1024 characters"):
        Query({"t": "x" * 1025}).text("t")


def test_parameters_that_no_code_asked_for() -> None:
    query = Query({"b": "1", "a": "2", "used": "3"})
    query.text("used")
    query.text("missing")
    assert query.unused() == ["a", "b"]


any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


@given(st.dictionaries(any_text, any_text, max_size=5), st.dictionaries(any_text, st.none() | any_text, max_size=3))
def test_changed_queries_keep_the_rest(given: dict[str, str], changes: dict[str, str | None]) -> None:
    query = Query.parse(urlencode(given))
    assert dict(query.items()) == given
    changed = Query.parse(query.with_changes(changes).removeprefix("?"))
    expected = {name: value for name, value in (given | changes).items() if value is not None}
    assert dict(changed.items()) == expected


@given(st.text(max_size=200))
def test_any_text_is_a_query(text: str) -> None:
    query = Query.parse(text)
    again = Query.parse(query.with_changes({}).removeprefix("?"))
    assert again.items() == query.items()


def test_repeated_parameters_and_their_number() -> None:
    assert Query.parse("a=1&a=2&b").items() == [("a", "2"), ("b", "")]
    assert len(Query.parse("&".join(f"p{number}=" for number in range(50))).items()) == 50
    with pytest.raises(ConfigError, match="more than 50 parameters"):
        Query.parse("&".join(f"p{number}=" for number in range(51)))
