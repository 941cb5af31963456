"""URLs of the pages: every name survives the way into a URL and back, and no URL names another page than its own."""

from __future__ import annotations

from urllib.parse import unquote, urlsplit

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.web import urls
from tidelog.web.query import Query
from tidelog.web.routes import ROUTES

any_text = st.text(st.characters()) | st.text(alphabet="./~%?#&+;=\\:@ \0\njson", max_size=12)
"""Any text, lone surrogates included, and texts of the characters that mean something in a URL."""


def named_parts(url: str) -> dict[str, str]:
    """Return the named parts of the only route that a path has."""
    path, is_json = urls.split_suffix(url)
    assert not is_json
    found = [parts for route in ROUTES if (parts := route.match(path.split("/")[1:])) is not None]
    assert len(found) == 1, url
    return found[0]


@given(any_text)
@example("")
@example(".")
@example("..")
@example("~")
@example("~..")
@example("a/b")
@example(".json")
@example("orders.json")
@example("%2e%2e%2f")
@example("\ud800")
@example("\udcff")
@example("\ud83d\ude00")
def test_every_name_survives_a_url(name: str) -> None:
    for url, part in (
        (urls.topic_url(name), "topic"),
        (urls.group_url(name), "group"),
        (urls.compare_url(name), "partition"),
        (urls.log_dir_url(name), "dir"),
    ):
        assert named_parts(url) == {part: name}
    assert named_parts(urls.batch_url("0", name, 7, 9)) == {"dir": "0", "log": name, "base": "7", "position": "9"}


@given(any_text)
def test_a_url_stays_on_this_server_and_in_its_place(name: str) -> None:
    url = urls.group_url(name)
    assert url.isascii()
    assert url.isprintable()
    split = urlsplit(f"http://localhost{url}")
    assert (split.netloc, split.query, split.fragment) == ("localhost", "", "")
    parts = url.split("/")[1:]
    assert len(parts) == 2
    assert unquote(parts[1]) not in ("", ".", "..")  # a browser would resolve these


@given(any_text)
def test_the_json_of_a_page_is_that_of_its_own_name(name: str) -> None:
    path = urls.group_url(name)
    assert urls.split_suffix(urls.json_path(path)) == (path, True)


def test_the_first_page_has_a_json_of_its_own() -> None:
    assert urls.json_path("/") == "/index.json"
    assert urls.split_suffix("/index.json") == ("/", True)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=20))
def test_parameters_survive_a_url(text: str) -> None:
    url = urls.records_url("0", "t-0", start=-10, key=text, end=None)
    path, _, query = url.partition("?")
    assert path == "/logs/0/t-0/records"
    parsed = Query.parse(query)
    assert dict(parsed.items()) == {"start": "-10", "key": text}


def test_a_parameter_with_a_lone_surrogate_is_no_error() -> None:
    assert urls.with_query("/groups", {"name": "a\udcffb"}) == "/groups?name=a%3Fb"
    assert Query({"name": "a\udcffb"}).with_changes({}) == "?name=a%3Fb"


@pytest.mark.parametrize("part", ["%", "%zz", "%ff", "%c3%28", "%00", "%ed%a0%80", "ü", "�"])
def test_any_part_of_a_path_has_a_text(part: str) -> None:
    assert isinstance(urls.unquote_part(part), str)
