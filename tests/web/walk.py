"""A walk over all pages: every link of every page is followed, and every page is compared with its JSON.

A *kind* is a route with the names of its parameters. A walk visits a bounded number of URLs of each kind, which it
chooses at random from the links that it has found; the seed makes it repeatable.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol
from urllib.parse import parse_qsl, urldefrag, urljoin, urlsplit

from tidelog.web import urls
from tidelog.web.routes import ROUTES
from web.page_reader import ReadPage, read_html

Kind = tuple[str, tuple[str, ...]]
_BASE = "http://localhost"


class Answer(Protocol):
    """A response, of a socket or in this process."""

    @property
    def status(self) -> int: ...

    @property
    def text(self) -> str: ...


class Client(Protocol):
    def ready(self, url: str, /) -> Answer:
        """Send GET requests until the report is ready."""
        ...


@dataclass(slots=True)
class Visit:
    """A visited page. ``links`` are the URLs of the inspector's pages that it leads to."""

    url: str
    problems: list[str] = field(default_factory=list)
    links: list[str] = field(default_factory=list)
    json: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Walk:
    visits: list[Visit] = field(default_factory=list)

    @property
    def problems(self) -> list[str]:
        return [f"{visit.url}: {problem}" for visit in self.visits for problem in visit.problems]

    @property
    def patterns(self) -> set[str]:
        """The patterns of the visited routes."""
        return {kind_of(visit.url)[0] for visit in self.visits}

    def sample(self, per_kind: int) -> list[str]:
        """Return the first URLs of each kind that were visited."""
        counts: dict[Kind, int] = defaultdict(int)
        found = []
        for visit in self.visits:
            kind = kind_of(visit.url)
            counts[kind] += 1
            if counts[kind] <= per_kind:
                found.append(visit.url)
        return found


def kind_of(url: str) -> Kind:
    """Return the kind of a URL. Its pattern is "" if no route has it."""
    path, _, query = url.partition("?")
    names = tuple(sorted({name for name, _ in parse_qsl(query, keep_blank_values=True)}))
    parts = path.split("/")[1:]
    return next((route.pattern for route in ROUTES if route.match(parts) is not None), ""), names


class Frontier:
    """The URLs that were found and not yet visited."""

    def __init__(self, *, per_kind: int | None, seed: int) -> None:
        self._per_kind = per_kind
        self._random = random.Random(seed)
        self._known: set[str] = set()
        self._waiting: dict[Kind, list[str]] = {}
        self._visited: dict[Kind, int] = defaultdict(int)
        self._of_route: dict[str, int] = defaultdict(int)

    def add(self, found: Iterable[str]) -> None:
        for url in found:
            if url not in self._known:
                self._known.add(url)
                self._waiting.setdefault(kind_of(url), []).append(url)

    def take(self) -> str | None:
        """Return a URL of the route and kind with the fewest visits, or None if no kind may have another one."""
        open_kinds = [
            kind
            for kind, found in self._waiting.items()
            if found and (self._per_kind is None or self._visited[kind] < self._per_kind)
        ]
        if not open_kinds:
            return None
        kind = min(open_kinds, key=lambda one: (self._of_route[one[0]], self._visited[one]))
        self._of_route[kind[0]] += 1
        self._visited[kind] += 1
        found = self._waiting[kind]
        return found.pop(self._random.randrange(len(found)))


def walk(
    client: Client,
    *,
    per_kind: int | None = None,
    total: int = 100_000,
    seed: int = 0,
    is_live: bool = False,
    start: Iterable[str] = ("/",),
    visited: Callable[[Visit], None] = lambda _visit: None,
) -> Walk:
    """Visit pages until all are known or a bound is reached. With ``is_live`` pages may change between two requests."""
    frontier, made = Frontier(per_kind=per_kind, seed=seed), Walk()
    frontier.add(start)
    while len(made.visits) < total and (url := frontier.take()) is not None:
        visit = visit_page(client, url, is_live=is_live)
        frontier.add(visit.links)
        made.visits.append(visit)
        visited(visit)
    return made


def visit_page(client: Client, url: str, *, is_live: bool = False) -> Visit:
    """Get a page and its JSON, and check both."""
    visit = Visit(url)
    response = client.ready(url)
    page = read_html(response.text)
    while page.refreshes and not is_live:  # a part of the page is not ready yet
        response = client.ready(url)
        page = read_html(response.text)
    if response.status != 200:
        if not (is_live and response.status in (404, 409)):  # the broker has removed the file meanwhile
            visit.problems.append(f"status {response.status}: {' '.join([*page.headings, *page.notes])}")
        return visit
    visit.problems += problems_of(page)
    visit.links = _links(visit, page)
    found = client.ready(json_url(url))
    if found.status != 200:
        if not (is_live and found.status in (404, 409)):
            visit.problems.append(f"its JSON has status {found.status}")
        return visit
    try:
        visit.json = json.loads(found.text, parse_constant=_refuse_constant)
    except ValueError as error:
        visit.problems.append(f"its JSON is none: {error}")
        return visit
    if not is_live:
        visit.problems += page.differences(visit.json)
    return visit


def json_url(url: str) -> str:
    """Return the URL of a page's JSON."""
    path, mark, query = url.partition("?")
    return urls.json_path(path) + mark + query


def problems_of(page: ReadPage) -> list[str]:
    """Return a sentence for each part of a page's HTML that no page may have or lack."""
    wrong = []
    if not page.title.removesuffix("· tidelog").strip():
        wrong.append("there is no title")
    if len(page.headings) != 1:
        wrong.append(f"there are {len(page.headings)} headings of the first level")
    lists = {name: getattr(page, name) for name in ("unclosed", "event_handlers", "unprintable")}
    wrong += [f"{name}: {found[:3]}" for name, found in lists.items() if found]
    if page.styles:
        wrong.append(f"{page.styles} style attributes, which the policy forbids")
    if len(page.ids) != len(set(page.ids)):
        wrong.append(f"an id occurs twice: {sorted({one for one in page.ids if page.ids.count(one) > 1})[:3]}")
    return wrong


def _links(visit: Visit, page: ReadPage) -> list[str]:
    """Return the links to pages, and note links that lead elsewhere."""
    path, _, query = visit.url.partition("?")
    found = []
    for link in [*page.links, *page.queries()]:
        target = urljoin(_BASE + visit.url, link)
        if not target.startswith(_BASE + "/"):
            visit.problems.append(f"it has a link to another server: {link}")
            continue
        target, fragment = urldefrag(target)
        url = target.removeprefix(_BASE)
        if fragment and url == visit.url and fragment not in page.ids:
            visit.problems.append(f"it has no id {fragment}, which a link names")
        split = urlsplit(url)
        if split.path.endswith(urls.JSON_SUFFIX):
            if split.path != urls.json_path(path) or parse_qsl(split.query) != parse_qsl(query):
                visit.problems.append(f"it has a link to the JSON of another page: {link}")
            continue
        if kind_of(url)[0] == "":
            visit.problems.append(f"it has a link to no page: {link}")
            continue
        found.append(url.removesuffix("?"))
    return found


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON")
