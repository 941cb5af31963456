"""Every page over directories that real brokers wrote: no dead link, no difference between HTML and JSON.

The quick tests visit some URLs of each kind, and open one page of every route in Chromium. The slow tests visit all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import pytest
from playwright.sync_api import Browser

from conftest import GoldenFactory
from tidelog.web.routes import ROUTES
from web.asgi_client import asgi_client
from web.chromium import Tab
from web.harness import serving
from web.inspected import CLOCK, DIRECTORIES, log_dirs
from web.page_reader import read_html
from web.walk import Frontier, Visit, Walk, kind_of, problems_of, visit_page, walk

ONLY_OF_A_BROKER = {"/broker"}
QUICK_VISITS = 40
SLOW_VISITS = 1000
IN_CHROMIUM = ("everything-killed", "cluster", "zookeeper")
Walks = Callable[[str], Walk]


@pytest.fixture(scope="module")
def walks(golden: GoldenFactory) -> Walks:
    """Return a function that walks over a directory once."""
    made: dict[str, Walk] = {}

    def get(name: str) -> Walk:
        if name not in made:
            with asgi_client(log_dirs(golden, name), clock=CLOCK) as client:
                made[name] = walk(client, per_kind=1, total=QUICK_VISITS)
        return made[name]

    return get


@pytest.mark.parametrize("name", DIRECTORIES)
def test_some_links_of_every_kind(walks: Walks, name: str) -> None:
    found = walks(name)
    assert found.problems == []
    assert len(found.visits) == QUICK_VISITS


def test_every_route_is_visited(walks: Walks) -> None:
    visited = set().union(*(walks(name).patterns for name in DIRECTORIES))
    assert {route.pattern for route in ROUTES} - visited <= ONLY_OF_A_BROKER


@pytest.mark.browser
def test_a_page_of_every_route_in_chromium(browser: Browser, golden: GoldenFactory, walks: Walks) -> None:
    """The directories take turns."""
    first: dict[str, dict[str, Visit]] = {name: {} for name in IN_CHROMIUM}
    for name in IN_CHROMIUM:
        for visit in walks(name).visits:
            first[name].setdefault(kind_of(visit.url)[0], visit)
    chosen: dict[str, list[Visit]] = {name: [] for name in IN_CHROMIUM}
    for number, route in enumerate(ROUTES):
        having = [name for name in IN_CHROMIUM if route.pattern in first[name]]
        if having:
            name = having[number % len(having)]
            chosen[name].append(first[name][route.pattern])
    assert [one for name in IN_CHROMIUM for one in open_all(browser, golden, name, chosen[name])] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", DIRECTORIES)
def test_all_links(golden: GoldenFactory, name: str) -> None:
    with asgi_client(log_dirs(golden, name), clock=CLOCK) as client:
        found = walk(client, total=SLOW_VISITS, seed=1)
    assert found.problems == []


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize("name", DIRECTORIES)
def test_many_pages_of_every_route_in_chromium(browser: Browser, golden: GoldenFactory, name: str) -> None:
    with asgi_client(log_dirs(golden, name), clock=CLOCK) as client:
        visits = walk(client, per_kind=6, total=400, seed=2).visits
    assert open_all(browser, golden, name, visits, is_brief=False) == []


def open_all(
    browser: Browser, golden: GoldenFactory, name: str, visits: Iterable[Visit], *, is_brief: bool = True
) -> list[str]:
    """Open pages, and return their defects. A brief check takes the colours of one theme, in turns."""
    problems = []
    with serving(log_dirs(golden, name), clock=CLOCK, wait_seconds=60) as served:
        light, dark = Tab.open_in(browser, served.base), Tab.open_in(browser, served.base, "dark")
        for number, visit in enumerate(visits):
            found = light.problems(visit.url, visit.json, is_brief=is_brief)
            if number % 2 or not is_brief:
                found += light.faint_colours(is_brief=is_brief)
            if not number % 2 or not is_brief:
                dark.go(visit.url)
                found += [f"dark: {one}" for one in dark.faint_colours(is_brief=is_brief)]
            problems += [f"{name} {visit.url}: {problem}" for problem in found]
        for tab in (light, dark):
            tab.page.context.close()
    return problems


def test_a_frontier_is_fair_and_bounded() -> None:
    frontier = Frontier(per_kind=2, seed=1)
    frontier.add(["/", "/groups/a", "/groups/b", "/groups/c", "/groups/a?x=1", "/groups/b?x=2", "/groups/a", "/"])
    taken = []
    while (url := frontier.take()) is not None:
        taken.append(url)
    assert len(taken) == len(set(taken)) == 5
    assert [kind_of(url)[0] for url in taken].count("/groups/{group}") == 4
    assert {kind_of(url) for url in taken[:3]} == {("/", ()), ("/groups/{group}", ()), ("/groups/{group}", ("x",))}


class Answers:
    """A client whose responses a test writes. Unknown URLs are 404."""

    def __init__(self, **texts: str) -> None:
        self._texts = texts

    def ready(self, url: str) -> Answers.One:
        name = "json" if ".json" in url else "html"
        return self.One(200, self._texts[name]) if name in self._texts else self.One(404, "<p class=note>none</p>")

    class One:
        def __init__(self, status: int, text: str) -> None:
            self.status = status
            self.text = text


HTML = """<title>T</title><h1>Groups</h1><a href="/groups.json">JSON</a>
<main><dl><div><dt>a</dt></div></dl></main>"""
JSON = '{"title": "Groups", "facts": {}, "sections": {}, "notes": []}'
SECTION = (
    '<section id="s"><table><tbody><tr></tr></tbody></table><svg><g data-item="{&quot;a&quot;: 1}"></g></svg></section>'
)
WITH_SECTION = '{"title": "Groups", "facts": {}, "sections": {"s": {"rows": [{}], "picture": [{"a": 1}]}}}'


@pytest.mark.parametrize(
    ("html", "found", "problem"),
    [
        (None, JSON, "status 404"),
        (HTML, None, "its JSON has status 404"),
        (HTML, "{", "its JSON is none"),
        (HTML, JSON.replace("[]", "NaN"), "NaN is no JSON"),
        (HTML, JSON.replace("Groups", "Other"), "are not the title"),
        (HTML, JSON.replace('"facts": {}', '"facts": {"a": 1, "b": 2}'), "1 facts, and 2"),
        (HTML.replace("T", ""), JSON, "there is no title"),
        (HTML + "<h1>Second</h1>", JSON, "2 headings of the first level"),
        (HTML + '<p id="a"></p><p id="a"></p>', JSON, "an id occurs twice"),
        (HTML + "<p><b></p>", JSON, "unclosed"),
        (HTML + '<p onclick="x"></p>', JSON, "event_handlers"),
        (HTML + '<p style="x"></p>', JSON, "style attributes"),
        (HTML + "<p>\x1b</p>", JSON, "unprintable"),
        (HTML + '<a href="https://evil.example/">x</a>', JSON, "a link to another server"),
        (HTML + '<a href="//evil.example/">x</a>', JSON, "a link to another server"),
        (HTML + '<a href="/nothing">x</a>', JSON, "a link to no page"),
        (HTML + '<a href="#nothing">x</a>', JSON, "no id nothing"),
        (HTML + '<a href="/topics/a.json">x</a>', JSON, "a link to the JSON of another page"),
        (HTML + SECTION, JSON, "the sections ['s'], and []"),
        (HTML + SECTION, WITH_SECTION.replace("[{}]", "[]"), "1 rows of s, and 0"),
        (HTML + SECTION, WITH_SECTION.replace('"a": 1', '"a": 2'), "the picture of s has other numbers"),
    ],
)
def test_a_visit_finds_what_is_wrong(html: str | None, found: str | None, problem: str) -> None:
    given = {name: text for name, text in (("html", html), ("json", found)) if text is not None}
    problems = visit_page(Answers(**given), "/groups").problems
    assert any(problem in one for one in problems), problems


def test_a_visit_of_a_good_page_finds_nothing() -> None:
    html = HTML.replace("<main><dl><div><dt>a</dt></div></dl></main>", SECTION + '<a href="/topics/x?y=1#z">x</a>')
    visit = visit_page(Answers(html=html, json=WITH_SECTION), "/groups")
    assert visit.problems == []
    assert visit.links == ["/topics/x?y=1"]
    assert problems_of(read_html(html)) == []
