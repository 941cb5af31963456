"""Every page of a running broker while clients write, read, commit and abort: by requests, and in Chromium."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from tidelog.web.routes import ROUTES
from web.broker_load import BrokerLoad
from web.chromium import Tab
from web.harness import Served
from web.test_serve_web import ON_ANY_PORT, overrides, served_pages
from web.walk import Visit, Walk, json_url, walk

SETTINGS = {
    "log.cleaner.backoff.ms": "500",
    "log.retention.check.interval.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "2",
    "transaction.state.log.num.partitions": "2",
}
QUICK_VISITS = 60
SLOW_VISITS = 1500
GONE = (404, 409)
"""The status of a page about a file that the broker has removed meanwhile."""
OF_TWO_DIRECTORIES = {"/compare/{partition}"}


@contextmanager
def pages_under_load(directory: Path) -> Iterator[Served]:
    with served_pages(directory, *ON_ANY_PORT, *overrides(SETTINGS)) as (process, served):
        with BrokerLoad(f"127.0.0.1:{process.port}") as load:
            before = load.rounds
            yield served
            assert load.rounds > before, "the clients stood still"
        assert not [line for line in process.lines if "failed" in line or "Traceback" in line]


def check_routes(found: Walk) -> None:
    """No page has a defect, and every route has been visited."""
    assert found.problems == []
    assert {route.pattern for route in ROUTES} - found.patterns == OF_TWO_DIRECTORIES


@pytest.mark.heavy
def test_pages_of_every_route_under_load(tmp_path: Path) -> None:
    with pages_under_load(tmp_path) as served:
        check_routes(walk(served, per_kind=2, total=QUICK_VISITS, is_live=True))


@pytest.mark.slow
def test_many_pages_under_load(tmp_path: Path) -> None:
    with pages_under_load(tmp_path) as served:
        check_routes(walk(served, total=SLOW_VISITS, seed=1, is_live=True))


@pytest.mark.slow
@pytest.mark.browser
def test_pages_of_every_route_under_load_in_chromium(browser: Browser, tmp_path: Path) -> None:
    with pages_under_load(tmp_path) as served:
        visits = walk(served, per_kind=3, total=250, seed=2, is_live=True).visits
        light, dark = (Tab.open_in(browser, served.base, theme, is_live=True) for theme in ("light", "dark"))
        compared, problems = 0, []
        for visit in visits:
            is_compared, found = open_live(light, served, visit)
            compared += is_compared
            problems += [f"{visit.url}: {problem}" for problem in found]
            if dark.go(visit.url) == 200:
                problems += [f"dark {visit.url}: {one}" for one in dark.faint_colours(is_brief=True)]
        for tab in (light, dark):
            tab.page.context.close()
    assert problems == []
    assert compared > len(visits) / 4


def open_live(tab: Tab, served: Served, visit: Visit) -> tuple[bool, list[str]]:
    """Open a page. Return True if its JSON stayed the same meanwhile and was compared, and the page's defects."""
    before = served.ready(json_url(visit.url))
    status = tab.go(visit.url)
    if status in GONE:
        return False, []
    found = tab.differences(before.json) if before.status == 200 else []
    is_same = served.ready(json_url(visit.url)).text == before.text
    problems = [f"status {status}"] if status != 200 else []
    return is_same, problems + (found if is_same else []) + tab.defects(is_brief=True) + tab.faint_colours(
        is_brief=True
    )
