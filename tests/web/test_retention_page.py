"""The page of retention: the rule that keeps each segment, the bytes that go soon, and those of a full disk."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from cli.runner import rows
from conftest import GoldenFactory
from golden_sets import CLUSTER, EVERYTHING, FLIGHTS, SCENARIOS, UNCLEAN_ELECTION
from log_maker import mark_clean, plain, write_segment
from tidelog.model import ConfigError
from tidelog.web.page import Page
from tidelog.web.page_json import page_json
from web.harness import check_picture, facts_of, read_page, rows_of, section_of, serving
from web.made_directories import DAY, retention_directory

THEN = 1_795_219_200_000
"""A moment a few minutes before Kafka wrote the golden sets: most of their segments are young."""


@pytest.fixture(scope="module")
def now_ms() -> int:
    return time.time_ns() // 1_000_000


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, now_ms: int) -> Path:
    """Return a log directory with a topic for each rule; tests only read it."""
    return retention_directory(tmp_path_factory.mktemp("retention"), now_ms)


def topics(page: Page) -> dict[str, dict[str, object]]:
    return {row["topic"]: row for row in rows_of(page, "topics")}


@pytest.mark.parametrize("moment", [THEN, THEN + 8 * DAY])
@pytest.mark.parametrize("set_name", [FLIGHTS, SCENARIOS, EVERYTHING["4.4"]])
def test_the_numbers_of_the_command(golden: GoldenFactory, set_name: str, moment: int) -> None:
    path = golden(set_name)
    page = read_page(path, f"/retention?now={moment}&logs.size=1000")
    expected = rows("retention", path, "--now", str(moment))
    for log in rows_of(page, "logs"):
        own = [row for row in expected if f"{row['topic']}-{row['partition']}" == log["log"]]
        assert (log["segments"], log["bytes"]) == (len(own), sum(row["bytes"] for row in own))
        going = [row for row in own if row["goes"] == "next_check"]
        assert (log["next_segments"], log["next_bytes"]) == (len(going), sum(row["bytes"] for row in going))
        later = [row for row in own if row["goes_at"] is not None and row["goes"] in ("time", "time_or_size")]
        for name, span in (("day_bytes", DAY), ("week_bytes", 7 * DAY)):
            within = [row for row in later if row["goes_at"] <= moment + span]
            assert log[name] == sum(row["bytes"] for row in [*going, *within])
        never = [row for row in own if row["goes"] == "never"]
        assert log["for_ever_bytes"] == sum(row["bytes"] for row in never)
    assert facts_of(page)["bytes"] == sum(row["bytes"] for row in expected)
    assert facts_of(page)["as_of"] == moment


def test_totals_add_up(made: Path) -> None:
    page = read_page(made, "/retention")
    facts, by_topic = facts_of(page), rows_of(page, "topics")
    for name in ("bytes", "day_bytes", "week_bytes", "for_ever_bytes"):
        assert facts[name] == sum(row[name] for row in by_topic)
    assert sum(row["bytes"] for row in rows_of(page, "rules")) == facts["bytes"]
    order = [(row["next_bytes"], row["day_bytes"], row["week_bytes"]) for row in by_topic]
    assert order == sorted(order, reverse=True)


def test_the_rule_that_keeps_each_topic(made: Path) -> None:
    found = topics(read_page(made, "/retention"))
    kept = {topic: set(row["kept_bytes"]) for topic, row in found.items()}  # type: ignore[call-overload]
    assert kept == {
        "orders": {"next check", "retention.ms"},
        "dated": {"next check", "future timestamp"},
        "audit": {"no limit"},
        "sized": {"next check", "retention.bytes"},
        "state": {"cleanup.policy"},
        "behind": {"next check", "high watermark"},
        "empty": {"empty active segment"},
        "__cluster_metadata": {"snapshots"},
    }
    assert found["dated"]["future_segments"] == 3
    assert found["audit"]["settings"] == "delete, no limit"
    assert found["sized"]["settings"] == "delete, 12,000 bytes"
    assert found["state"]["settings"] == "compact"


def test_bytes_that_may_go_when_the_disk_is_full(made: Path) -> None:
    page = read_page(made, "/retention")
    found = {row["kind"]: (row["count"], row["bytes"]) for row in rows_of(page, "now")}
    facts = facts_of(page)
    assert found["segments"][1] == facts["next_bytes"] > 0
    assert found["deleted"] == (1, 30_000)
    assert found["unfinished"] == (1, 3000)
    assert found["delete"] == (1, 50_000)
    assert found["stray"] == (1, 70_000)
    total = facts["next_bytes"] + 83_000
    assert section_of(page, "now").title == f"If the disk is full: {total / 1024:.1f} KiB may go now"


def test_the_staircase(made: Path, now_ms: int) -> None:
    page = read_page(made, f"/retention?now={now_ms}")
    section = section_of(page, "freed")
    check_picture(section)
    assert section.picture is not None
    items = section.picture.items
    assert items[0]["at"] == now_ms
    assert items[0]["total"] == facts_of(page)["next_bytes"]
    assert items[-1]["total"] == facts_of(page)["week_bytes"]
    far = section_of(read_page(made, f"/retention?now={now_ms}&days=500"), "freed")
    assert far.picture is not None
    assert far.picture.items[-1]["total"] > items[-1]["total"]  # type: ignore[operator]
    check_picture(section_of(page, "rules"))


def test_other_settings_are_tried(made: Path) -> None:
    before, after = (read_page(made, f"/retention{query}") for query in ("", "?retention.ms=1d"))
    assert facts_of(after)["next_bytes"] > facts_of(before)["next_bytes"]
    assert "The page tries retention.ms=86400000 for every topic. Nothing is changed." in after.notes
    everything = read_page(made, "/retention?retention.ms=-1&retention.bytes=0")
    kept = topics(everything)
    assert kept["audit"]["next_bytes"] == kept["audit"]["bytes"]
    assert kept["state"]["next_bytes"] == 0, "a compacted topic is not deleted from"


def test_the_topic_filters_everything(made: Path) -> None:
    page = read_page(made, "/retention?topic=ORD")
    assert set(topics(page)) == {"orders"}
    assert [row["log"] for row in rows_of(page, "logs")] == ["orders-0"]
    found = {row["kind"]: row["bytes"] for row in rows_of(page, "now")}
    assert (found["deleted"], found["delete"]) == (30_000, 0)
    assert "stray" not in found


@pytest.mark.parametrize(
    "query",
    ["now=latest", "now=soon", "retention.ms=x", "retention.ms=1y", "retention.bytes=1.5", "days=-1", "topics.sort=x"],
)
def test_wrong_parameters(made: Path, query: str) -> None:
    with pytest.raises(ConfigError):
        read_page(made, f"/retention?{query}")


@pytest.mark.parametrize(
    "query",
    [
        "now=9223372036854775807",
        "now=0",
        "retention.ms=9223372036854775807&days=36500",
        "retention.bytes=-5",
        "topic=%00<",
    ],
)
def test_extreme_parameters(made: Path, query: str) -> None:
    page = read_page(made, f"/retention?{query}")
    check_pictures(page)
    json.dumps(page_json(page))


def check_pictures(page: Page) -> None:
    for section in page.sections:
        if section.picture is not None:
            check_picture(section)


def test_without_metadata(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    mark_clean(tmp_path)
    page = read_page(tmp_path, "/retention")
    assert any("There is no cluster metadata here" in note for note in page.notes)
    assert topics(page)["t"]["settings"] == "delete, 7 days"


def test_a_log_that_cannot_be_read(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    (tmp_path / "u-0" / f"{0:020d}.log").mkdir(parents=True)
    page = read_page(tmp_path, "/retention")
    assert any(note.startswith("u-0 cannot be read") for note in page.notes)
    assert topics(page)["u"]["kept_by"] == "unreadable"
    assert topics(page)["t"]["bytes"]


def test_several_brokers(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    paths = [brokers / f"broker{number}" for number in (1, 2, 3)]
    page = read_page(paths, "/retention?topic=plain")
    assert {(row["log_dir"], row["log"]) for row in rows_of(page, "logs")} == {
        (key, f"plain-{number}") for key in "012" for number in (0, 1)
    }
    assert topics(page)["plain"]["logs"] == 6


def test_html(made: Path) -> None:
    with serving(made) as served:
        html = served.ready("/retention?topic=orders").text
    assert '<a href="/topics/orders">' in html
    assert '<a href="/logs/0/orders-0">' in html
    assert "If the disk is full" in html
