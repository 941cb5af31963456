"""The page of a running broker: its numbers are those of the broker, and of the requests of its clients."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from log_maker import batch
from server.groups.group_broker import SETTINGS
from server.harness import WireClient
from server.live_reports.reported_home import ReportedHome
from tidelog.model import ConfigError, TopicPartition
from tidelog.protocol.api_key import ApiKey
from tidelog.server.live_reports.reported_node import Wanted
from tidelog.server.live_reports.reports import REPORTS, make_report
from tidelog.web.broker_link import BrokerLinkError, Reports
from tidelog.web.html import navigation_of, page_html
from tidelog.web.jobs import Jobs
from tidelog.web.page import Page
from tidelog.web.page_json import page_json
from tidelog.web.pages.broker import REPORTS as WANTED
from tidelog.web.pages.broker import broker_page
from tidelog.web.query import Query
from tidelog.web.request import PageRequest
from tidelog.web.sources import NotFoundError, Sources
from web.harness import check_picture, facts_of, rows_of, section_of

HOSTILE = "<script>alert(1)</script>‮\x1b[31m"


class LinkedHome(ReportedHome):
    """A broker that a page may ask without a socket."""

    def reports(self, names: Sequence[str], *, name: str = "", most: int = 200) -> Reports:
        wanted = Wanted(name=name, most=most)
        made = {one: self.run(partial(make_report, self.reported, one, wanted)) for one in names}
        found: Reports = json.loads(json.dumps(made, allow_nan=False))
        return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LinkedHome]:
    with LinkedHome(tmp_path_factory.mktemp("page"), SETTINGS) as running:
        running.create_topic("orders", 3)
        with running.client(client_id=HOSTILE) as client:
            for number, count in enumerate((4, 0, 9)):
                if count:
                    produce(client, number, [b"v"] * count)
                commit(client, HOSTILE, number)
            yield running


def produce(client: WireClient, number: int, values: Sequence[bytes]) -> None:
    part = {"index": number, "records": batch(0, values)}
    topics = [{"name": "orders", "partition_data": [part]}]
    client.call(ApiKey.PRODUCE, 9, transactional_id=None, acks=-1, timeout=10_000, topic_data=topics)


def commit(client: WireClient, group: str, number: int) -> None:
    client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group])
    part = {"partition_index": number, "committed_offset": 1 if number == 2 else 0}
    topics = [{"name": "orders", "partitions": [part]}]
    while client.call(ApiKey.OFFSET_COMMIT, 8, group_id=group, topics=topics).topics[0].partitions[0].error_code:
        pass


def request_of(broker: Any, path: Path, query: str = "") -> PageRequest:
    return PageRequest(sources=Sources.of([path]), jobs=Jobs(), query=Query.parse(query), broker=broker)


def page_of(home: LinkedHome, query: str = "") -> Page:
    return broker_page(request_of(home, home.server.data_directories[0], query))


def test_the_facts_are_those_of_the_node(home: LinkedHome) -> None:
    page = page_of(home)
    facts = facts_of(page)
    assert page.title == "Broker 1"
    assert facts["state"] == "running"
    assert facts["roles"] == ["broker", "controller"]
    assert facts["cluster_id"] == home.server.metadata.image.cluster_id
    assert facts["connections"] == sum(len(one.connections) for one in home.server.listeners)
    assert page.notes == []


def test_the_lag_of_groups_and_its_pictures(home: LinkedHome) -> None:
    page = page_of(home)
    (row,) = rows_of(page, "groups")
    assert (row["group"], row["lag"], row["offsets"]) == (HOSTILE, 12, 3)
    check_picture(section_of(page, "groups"))
    partitions = rows_of(page, "group_partitions")
    assert [(row["partition"], row["lag"]) for row in partitions] == [(2, 8), (0, 4), (1, 0)]
    check_picture(section_of(page, "group_partitions"))
    link = section_of(page, "group_partitions").table.columns[2].link  # type: ignore[union-attr] # it has a table
    assert link is not None
    assert link(partitions[0]) == "/logs/0/orders-2"


def test_requests_and_connections(home: LinkedHome) -> None:
    page = page_of(home)
    rows = {row["api"]: row for row in rows_of(page, "requests")}
    assert rows["Produce"]["count"] == 2
    check_picture(section_of(page, "requests"))
    picture = section_of(page, "requests").picture
    assert picture is not None
    assert {"api": "Produce", "requests": 2} in list(picture.items)
    (connection,) = rows_of(page, "connections")
    assert connection["client_id"] == HOSTILE
    assert connection["requests"] == sum(row["count"] for row in rows.values())


def test_a_name_selects_rows(home: LinkedHome) -> None:
    page = page_of(home, "name=nothing-has-this")
    assert rows_of(page, "groups") == rows_of(page, "connections") == []
    assert rows_of(page, "requests")
    table = section_of(page, "connections").table
    assert table is not None
    assert table.empty == "No connection has this name."


def test_tables_sort_by_every_column(home: LinkedHome) -> None:
    whole = page_of(home)
    for section in whole.sections:
        assert section.table is not None
        for column in section.table.columns:
            page = page_of(home, f"{section.name}.sort=-{column.name}")
            assert len(rows_of(page, section.name)) == len(section.table.rows)
    with pytest.raises(ConfigError):
        page_of(home, "tasks.sort=nothing")


def test_the_page_loads_itself_again_unless_it_should_not(home: LinkedHome) -> None:
    assert page_of(home).refresh_seconds == 2
    assert page_of(home).links[0].title == "Stop refreshing"
    stopped = page_of(home, "refresh=0&name=x")
    assert stopped.refresh_seconds is None
    assert stopped.links[0].url == "?name=x"
    assert page_of(home, "refresh=10").refresh_seconds == 10
    with pytest.raises(ConfigError):
        page_of(home, "refresh=-1")


def test_the_html_escapes_and_has_every_section(home: LinkedHome) -> None:
    request = request_of(home, home.server.data_directories[0])
    page = broker_page(request)
    html = page_html(page, "/broker", request.query, navigation_of(request))
    assert "<script>alert(1)" not in html
    assert "\x1b" not in html
    assert "‮" not in html
    assert 'data-reload="2"' in html
    assert 'href="/broker" aria-current="page"' in html
    for section in page.sections:
        assert f'id="{section.name}"' in html
    assert json.loads(json.dumps(page_json(page)))["sections"].keys() == {one.name for one in page.sections}


def test_every_report_is_on_the_page() -> None:
    assert set(WANTED) == set(REPORTS)


def test_without_a_broker_there_is_no_page_and_no_link(home: LinkedHome) -> None:
    request = request_of(None, home.server.data_directories[0])
    with pytest.raises(NotFoundError, match="tidelog serve --web"):
        broker_page(request)
    assert "/broker" not in [link.url for link in navigation_of(request)]


@dataclass
class MadeBroker:
    """A broker whose reports a test makes."""

    found: dict[str, Any] = field(default_factory=dict)
    error: str = ""

    def reports(self, names: Sequence[str], *, name: str = "", most: int = 200) -> Reports:
        if self.error:
            raise BrokerLinkError(self.error)
        return self.found


def test_a_broker_that_does_not_respond_is_a_note(home: LinkedHome) -> None:
    page = broker_page(request_of(MadeBroker(error="it hangs"), home.server.data_directories[0]))
    assert page.notes == ["The broker cannot be asked at this moment: it hangs."]
    assert page.refresh_seconds == 2


FOLLOWER = {"broker": 2, "in_sync": False, "log_end": 3, "lag": 1204, "behind_ms": 3200, "last_fetch_ago_ms": 1}
LED = {
    "topic": HOSTILE,
    "partition": 0,
    "leader_epoch": 4,
    "partition_epoch": 6,
    "replicas": [1, 2, 3],
    "isr": [1],
    "min_isr": 2,
    "proposed_isr": None,
    "high_watermark": 3,
    "log_end": 1207,
    "followers": [FOLLOWER, {**FOLLOWER, "broker": 3, "lag": None, "in_sync": True}],
    "largest_lag": 1204,
    "longest_behind_ms": 3200,
    "is_under_replicated": True,
    "delayed": 1,
    "log_dir": "/elsewhere",
}
FETCHER = {
    "leader": 2,
    "fetcher": 0,
    "state": "failing",
    "partitions": 1,
    "phases": {"fetching": 1},
    "lag": 17,
    "largest_lag": 17,
    "throttled": 1,
    "failures": 3,
    "requests_rate": 0.5,
    "bytes_rate": 0.0,
}
FOLLOWED = {
    "topic": "t",
    "partition": 1,
    "leader": 2,
    "fetcher": 0,
    "phase": "fetching",
    "lag": 17,
    "log_end": 5,
    "is_throttled": True,
    "ready_in_ms": None,
    "log_dir": None,
}
MOVE = {"topic": "t", "partition": 0, "source": "/a", "target": "/b", "lag": 9, "copied_bytes": 10}


def test_followers_and_fetchers(home: LinkedHome) -> None:
    """A single broker has none of them."""
    found = json.loads(json.dumps(dict(home.reports(WANTED))))
    counts = {"partitions": 9, "led": 5, "offline": 2, "under_replicated": 1, "under_min_isr": 1, "reassigning": 0}
    found["partitions"] = {"rows": [LED], "total": 700, "counts": counts, "is_complete": False}
    found["fetchers"] = {
        "rows": [FETCHER],
        "total": 1,
        "partitions": {"rows": [FOLLOWED], "total": 1},
        "failed": [f"t-{number}" for number in range(20)],
        "dead": 0,
        "is_complete": True,
    }
    request = request_of(MadeBroker(found), home.server.data_directories[0])
    page = broker_page(request)
    (row,) = rows_of(page, "followers")
    assert row["followers_text"] == "broker 2 (out of sync): 1,204 behind, for 3 seconds; broker 3: no fetch yet"
    assert "The first 1 of 700 are here" in section_of(page, "followers").text
    check_picture(section_of(page, "followers"))
    check_picture(section_of(page, "followed"))
    assert "t-0, t-1" in section_of(page, "fetchers").text
    notes = "\n".join(page.notes)
    assert "The report partitions was ended" in notes
    assert "2 replicas here are offline" in notes
    assert page_html(page, "/broker", request.query)


def test_problems_of_log_directories(home: LinkedHome) -> None:
    found = json.loads(json.dumps(dict(home.reports(WANTED))))
    found["log_dirs"]["rows"].append({**found["log_dirs"]["rows"][0], "path": "/disk2", "error": "I/O error"})
    found["log_dirs"]["problems"]["rows"] = [{"path": "/disk1/x-0", "problem": "damaged", "reason": HOSTILE}]
    found["log_dirs"]["moves"] = [MOVE]
    found["throttled"]["replication"] = [{"side": "leader", "limit": 100, "rate": 3.5, "is_exceeded": False}]
    page = broker_page(request_of(MadeBroker(found), home.server.data_directories[0]))
    assert rows_of(page, "moves") == [MOVE]
    assert rows_of(page, "problems")[0]["reason"] == HOSTILE
    assert rows_of(page, "replication_quotas")[0]["side"] == "leader"
    assert page.notes == ["The log directory /disk2 is offline: I/O error."]


def test_a_controller_has_no_groups_and_replicas(home: LinkedHome) -> None:
    found = json.loads(json.dumps(dict(home.reports(WANTED))))
    found["node"] |= {"roles": ["controller"], "node_id": 100}
    found["log_dirs"] = {
        "rows": [{"path": str(home.server.data_directories[0]), "state": "in use"}],
        "total": 1,
        "problems": {"rows": [], "total": 0},
        "moves": [],
        "is_complete": True,
    }
    page = broker_page(request_of(MadeBroker(found), home.server.data_directories[0]))
    assert page.title == "Controller 100"
    names = [section.name for section in page.sections]
    assert "groups" not in names
    assert "followers" not in names
    assert "requests" in names


def test_the_partition_of_the_page_is_that_of_the_broker(home: LinkedHome) -> None:
    end = home.call(lambda: home.server.replicas.partition(TopicPartition("orders", 2)).high_watermark)
    row = next(row for row in rows_of(page_of(home), "group_partitions") if row["partition"] == 2)
    assert row["end"] == end == 9
