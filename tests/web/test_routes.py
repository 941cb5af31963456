"""Routes: each pattern is found by its own URLs alone, and its page function exists."""

from __future__ import annotations

import re

import pytest

from tidelog.web import urls
from tidelog.web.html import NAVIGATION
from tidelog.web.routes import ROUTES, Route, find_page
from tidelog.web.sources import NotFoundError


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.pattern)
def test_the_page_function_of_a_route_exists(route: Route) -> None:
    function = route.load()
    assert callable(function)
    assert function.__doc__, f"{route.function} needs a docstring"


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.pattern)
def test_no_two_routes_have_the_same_url(route: Route) -> None:
    path = re.sub(r"\{\w+\}", "7", route.pattern)
    assert [other for other in ROUTES if other.match(path.split("/")[1:]) is not None] == [route]


def test_every_page_of_the_navigation_has_a_route() -> None:
    patterns = {route.pattern for route in ROUTES}
    assert {link.url for link in NAVIGATION} <= patterns
    assert urls.BROKER in patterns


@pytest.mark.parametrize(
    "path",
    ["", "//", "/groups/", "/topics/", "/logs//t-0", "/logs/0/", "/logs//", "/Groups", "/groups/a/b", "/index", "x"],
)
def test_other_paths_have_no_page(path: str) -> None:
    with pytest.raises(NotFoundError, match="there is no page"):
        find_page(path)
