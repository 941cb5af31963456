"""The page of one log: against the commands' reports, real directories, made logs, damage and hostile names."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from cluster_maker import write_metadata
from conftest import GoldenFactory
from golden_sets import CLUSTER, EVERYTHING, SCENARIOS, UNCLEAN_ELECTION
from log_maker import batch, data, mark_clean, plain, write_checkpoint, write_segment
from tidelog.inspect.retention import survey_retention
from tidelog.inspect.retention.sentences import goes_text, why_text
from tidelog.model import ConfigError, TopicPartition
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.storage.fs import LOCAL, File, LocalFileSystem
from tidelog.storage.manager.survey.setting_sources import read_setting_sources
from tidelog.web.html import page_html
from tidelog.web.jobs import Jobs
from tidelog.web.page import Page
from tidelog.web.page_json import page_json
from tidelog.web.query import Query
from tidelog.web.request import PageRequest
from tidelog.web.routes import find_page
from tidelog.web.sources import NotFoundError, Sources
from tidelog.web.svg.ribbon_items import STYLES
from web.harness import check_picture, facts_of, read_page, rows_of, section_of, serving

LIVE_BROKER = Path(__file__).parents[1] / "live_broker.py"
NOW = 1_795_000_000_000
DAY = 86_400_000
TOPICS = ("plain", "txn", "compacted", "trimmed", "append-time", "__cluster_metadata", "empty")


def items_of(page: Page, kind: str) -> list[dict[str, Any]]:
    picture = section_of(page, "segments").picture
    assert picture is not None
    return [dict(item) for item in picture.items if item["kind"] == kind]


def html_of(page: Page) -> str:
    return page_html(page, "/logs/0/t-0", Query())


@pytest.mark.parametrize(
    ("set_name", "kind"), [(SCENARIOS, "unclean"), (SCENARIOS, "clean"), (EVERYTHING["4.4"], "unclean")]
)
def test_segments_are_those_of_the_retention_command(golden: GoldenFactory, set_name: str, kind: str) -> None:
    path = golden(set_name, kind)
    sources = read_setting_sources(LOCAL, [path])[path]
    wanted = [TopicPartition(topic, 0) for topic in TOPICS]
    for part in survey_retention(LOCAL, path, sources, now_ms=NOW, only=wanted):
        page = read_page(path, f"/logs/0/{part.partition.directory_name}?now={NOW}")
        rows = rows_of(page, "segments")
        assert part.state is not None
        for row, outlook in zip(rows, part.outlooks, strict=True):
            assert (row["base_offset"], row["valid_bytes"]) == (outlook.segment.base_offset, outlook.segment.size_bytes)
            assert (row["goes_text"], row["why"]) == (goes_text(part, outlook), why_text(part, outlook))
        assert facts_of(page)["high_watermark"] == part.state.high_watermark
        assert [item["segments"] for item in items_of(page, "segment")] == [1] * len(rows)
        assert [item["base_offset"] for item in items_of(page, "segment")] == [row["base_offset"] for row in rows]
        assert STYLES.keys() >= {row["state"] for row in rows}
        check_picture(section_of(page, "segments"))
        json.dumps(page_json(page))
        html_of(page)


def test_an_open_transaction_blocks_up_to_the_log_end(golden: GoldenFactory) -> None:
    page = read_page(golden(SCENARIOS, "unclean"), "/logs/0/txn-0")
    (row,) = rows_of(page, "open_transactions")
    (bar,) = items_of(page, "transaction")
    facts = facts_of(page)
    assert (row["producer_id"], row["start_offset"], row["held_back_records"]) == (2, 516, 45)
    assert (bar["start_offset"], bar["end_offset"], bar["producer_id"]) == (516, facts["log_end"], 2)
    assert facts["last_stable"] == 516
    total = sum(item["bytes"] for item in items_of(page, "segment"))
    assert bar["start"] + bar["bytes"] == total
    marks = {name: item for item in items_of(page, "mark") for name in item["names"]}
    assert marks["last stable offset"]["offset"] == 516
    assert marks["last stable offset"]["place"] == bar["start"]
    assert marks["log end"]["place"] == total


def test_offsets_have_their_sources(golden: GoldenFactory) -> None:
    trimmed = rows_of(read_page(golden(SCENARIOS), "/logs/0/trimmed-0"), "offsets")
    sources = {row["name"]: row["source"] for row in trimmed}
    assert sources["log start"] == "log-start-offset-checkpoint"
    assert [row["offset"] for row in trimmed if row["name"] == "log start"] == [777]
    assert sources["high watermark"].startswith("this broker has the only replica")
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    several = read_page([brokers / "broker1", brokers / "broker2", brokers / "broker3"], "/logs/1/plain-0")
    assert rows_of(several, "offsets")[3]["source"] == "replication-offset-checkpoint"
    assert [link.title for link in several.links][-1] == "Compare replicas"
    assert len(rows_of(several, "epochs")) > 1
    assert [band["epoch"] for band in items_of(several, "epoch")] == [
        row["epoch"] for row in rows_of(several, "epochs")
    ]


def test_settings_have_their_sources(golden: GoldenFactory) -> None:
    rows = {row["key"]: row for row in rows_of(read_page(golden(SCENARIOS), "/logs/0/compacted-0"), "settings")}
    assert (rows["cleanup.policy"]["value"], rows["cleanup.policy"]["source"]) == (["compact"], "topic")
    assert (rows["retention.ms"]["text"], rows["retention.ms"]["source"]) == ("7 days", "default")
    assert "min.cleanable.dirty.ratio" in rows


def test_leftover_files_and_the_next_start(golden: GoldenFactory) -> None:
    page = read_page(golden(SCENARIOS, "unclean"), "/logs/0/compacted-0?files.size=1000")
    files = rows_of(page, "files")
    assert facts_of(page)["leftovers"] == sum(row["is_leftover"] for row in files) == 180
    steps = rows_of(page, "next_start")
    assert [step["step"] for step in steps][:2] == ["remove", "recover"]
    assert "removes 180 leftover files; recovers 1 segment from 2360" in section_of(page, "next_start").text


def set_topic(topic: str, **settings: str) -> list[MetadataRecord]:
    return [
        MetadataRecord(
            "ConfigRecord",
            {"resourceType": 2, "resourceName": topic, "name": key.replace("_", "."), "value": value},
        )
        for key, value in settings.items()
    ]


def make_log(path: Path, times: list[int], **settings: str) -> Path:
    """Write the partition t-0 with a segment of ten records for each time, and the settings of its topic."""
    for number, moment in enumerate(times):
        write_segment(path / "t-0", 10 * number, [plain(10 * number, timestamp=moment)])
    write_metadata(path, {"t": {}}, set_topic("t", **settings))
    mark_clean(path)
    return path


def states_of(path: Path, now_ms: int = NOW) -> list[str]:
    return [item["state"] for item in items_of(read_page(path, f"/logs/0/t-0?now={now_ms}"), "segment")]


def test_states_follow_the_settings_and_the_moment(tmp_path: Path) -> None:
    path = make_log(
        tmp_path, [NOW - 9 * DAY, NOW - 5 * DAY, NOW + 30 * DAY, NOW - DAY, NOW - 99], retention_ms=str(7 * DAY)
    )
    assert states_of(path) == ["deleted_by_time", "time", "future", "waits", "active"]
    assert states_of(path, NOW + 3 * DAY) == ["deleted_by_time", "deleted_by_time", "future", "waits", "active"]
    page = read_page(path, f"/logs/0/t-0?now={NOW}")
    assert "Segments that timestamps in the future keep: 1. Segments that wait: 2." in page.notes
    assert facts_of(page)["next_check_segments"] == 1


def test_states_by_size(tmp_path: Path) -> None:
    size = len(plain(0))
    path = make_log(tmp_path, [NOW - 99] * 4, retention_ms="-1", retention_bytes=str(2 * size))
    assert states_of(path) == ["deleted_by_size", "deleted_by_size", "size", "active"]
    row = rows_of(read_page(path, f"/logs/0/t-0?now={NOW}"), "segments")[2]
    assert (row["after_bytes"], row["goes_text"]) == (size, f"after {size:,} more bytes")


def test_invalid_settings_do_not_hide_the_log(tmp_path: Path) -> None:
    path = make_log(tmp_path, [NOW], retention_ms="soon")
    page = read_page(path, "/logs/0/t-0")
    assert "Kafka's defaults are used" in page.notes[0]
    assert facts_of(page)["log_end"] == 10


def test_many_segments_are_joined(tmp_path: Path) -> None:
    times = [NOW - 9 * DAY] * 250 + [NOW - DAY] * 60
    path = make_log(tmp_path, times, retention_ms=str(7 * DAY))
    page = read_page(path, f"/logs/0/t-0?now={NOW}")
    section = section_of(page, "segments")
    items = items_of(page, "segment")
    assert len(items) <= 200
    assert sum(item["segments"] for item in items) == 310
    assert {item["state"]: item["segments"] for item in items}["active"] == 1
    assert "Neighbours of equal state are drawn together" in section.text
    check_picture(section)
    assert section.picture is not None
    assert "segments.page=2#segments" in section.picture.draw()
    assert len(rows_of(page, "segments")) == 100
    last = read_page(path, f"/logs/0/t-0?now={NOW}&segments.page=4&segments.sort=-base_offset")
    assert [row["base_offset"] for row in rows_of(last, "segments")] == list(range(90, -1, -10))


def test_segments_of_changing_states_are_joined_too(tmp_path: Path) -> None:
    path = make_log(tmp_path, [NOW - 5 * DAY, NOW - 9 * DAY] * 150, retention_ms=str(7 * DAY))
    items = items_of(read_page(path, f"/logs/0/t-0?now={NOW}"), "segment")
    assert len(items) <= 200
    assert {item["state"] for item in items[:-1]} == {"time", "waits", "mixed"}
    assert (items[-1]["state"], items[-1]["segments"]) == ("active", 1)
    assert sum(item["segments"] for item in items) == 300


class CountingFileSystem(LocalFileSystem):
    """A local file system that counts the files that are opened."""

    __slots__ = ("opened",)

    def __init__(self) -> None:
        self.opened = 0

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> File:  # type: ignore[override]
        self.opened += 1
        return super().open(path, write=write, create=create)


def test_a_second_request_reads_no_file(tmp_path: Path) -> None:
    """The page judges each segment again from the same report, until the files change."""
    path = make_log(tmp_path, [NOW - 9 * DAY] * 30, retention_ms=str(7 * DAY))
    fs, jobs = CountingFileSystem(), Jobs(wait_seconds=None)
    sources = Sources.of([path], fs)

    def read(now_ms: int) -> Page:
        function, parts = find_page("/logs/0/t-0")
        query = Query({"now": str(now_ms)})
        return function(PageRequest(sources=sources, jobs=jobs, path=parts, query=query))

    try:
        future = SYSTEM_CLOCK.now_ms() + DAY
        first = read(future)
        opened = fs.opened
        assert opened > 60
        assert rows_of(read(future), "segments") == rows_of(first, "segments")
        assert fs.opened - opened <= 1, "meta.properties"
        write_segment(path / "t-0", 300, [plain(300)])
        assert len(rows_of(read(future), "segments")) == 31
        assert fs.opened - opened > 60
    finally:
        jobs.close()


def damage(path: Path) -> None:
    for number in range(3):
        base = 100 * number
        write_segment(path / "t-0", base, [plain(base + 10 * row) for row in range(10)])
    log = path / "t-0" / f"{100:020d}.log"
    content = bytearray(log.read_bytes())
    content[len(plain(0)) * 4 + 80] ^= 1
    log.write_bytes(content)
    write_checkpoint(path, "replication-offset-checkpoint", {"t-0": 300})


def test_the_bytes_that_a_start_removes(tmp_path: Path) -> None:
    damage(tmp_path)
    page = read_page(tmp_path, "/logs/0/t-0")
    size = len(plain(0))
    (tail,) = items_of(page, "lost_tail")
    assert (tail["offset"], tail["start"], tail["bytes"]) == (140, 14 * size, 6 * size)
    assert items_of(page, "segment")[-1]["state"] == "lost"
    text = section_of(page, "next_start").text
    assert "They have 15 complete batches with 150 records." in text
    assert "The checkpointed high watermark is 300" in text
    assert "160 offsets are lost" in text
    steps = {row["step"]: row for row in rows_of(page, "next_start")}
    assert (steps["truncate"]["position"], steps["truncate"]["segment"]) == (4 * size, 100)
    assert steps["delete"]["segment"] is None, "the log has no such segment, so no page"
    recovered = [row["segment"] for row in rows_of(page, "next_start") if row["step"] == "recover"]
    assert recovered == [0, 100, None]
    check_picture(section_of(page, "segments"))


def test_damaged_small_files_become_notes(golden_copy: GoldenFactory) -> None:
    path = golden_copy(SCENARIOS)
    (path / "plain-0" / "leader-epoch-checkpoint").write_text("0\n1\nno line\n")
    (path / "plain-0" / "partition.metadata").write_bytes(b"\xff")
    page = read_page(path, "/logs/0/plain-0")
    assert [note.split(" failed")[0] for note in page.notes] == ["Reading the leader epochs", "Reading the topic id"]
    assert facts_of(page)["log_end"] == 1000
    assert rows_of(page, "epochs") == []


def test_a_log_that_cannot_be_opened_is_listed(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    (tmp_path / "t-0" / f"{10:020d}.log").mkdir()
    mark_clean(tmp_path)
    page = read_page(tmp_path, "/logs/0/t-0")
    assert page.notes[0].startswith("Only names and sizes are shown")
    assert [row["base_offset"] for row in rows_of(page, "segments")] == [0, 10]


@pytest.mark.parametrize(("suffix", "goes"), [("delete", "file.delete.delay.ms"), ("stray", "never"), ("future", None)])
def test_directories_that_are_no_live_log(tmp_path: Path, suffix: str, goes: str | None) -> None:
    name = f"t-0.{'0123456789abcdef' * 2}-{suffix}"
    write_segment(tmp_path / name, 0, [plain(0)])
    write_segment(tmp_path / name, 10, [plain(10)])
    write_checkpoint(tmp_path, "log-start-offset-checkpoint", {"t-0": 5000})
    page = read_page(tmp_path, f"/logs/0/{name}")
    facts = facts_of(page)
    assert facts["segments"] == (0 if suffix == "future" else 2), "only a future log has checkpoints of its own"
    assert facts["partition"] == "t-0"
    if goes is not None:
        assert facts["goes"].startswith(goes)
    assert page.notes
    assert [link.title for link in page.trail] == ["Cluster", "t", str(tmp_path)]


def test_a_log_without_records(golden: GoldenFactory) -> None:
    page = read_page(golden(SCENARIOS), "/logs/0/empty-0")
    (segment,) = items_of(page, "segment")
    assert (segment["state"], segment["trigger"], segment["bytes"]) == ("active", "never", 0)
    (mark,) = items_of(page, "mark")
    assert mark["names"] == ["log start", "recovery point", "last stable offset", "high watermark", "log end"]
    check_picture(section_of(page, "segments"))


def test_the_metadata_log_is_kept_by_snapshots(golden: GoldenFactory) -> None:
    page = read_page(golden(EVERYTHING["4.4"], "unclean"), "/logs/0/__cluster_metadata-0")
    assert [tick["of"] for tick in items_of(page, "snapshot")] == ["metadata"]
    assert "begins at its oldest snapshot" in rows_of(page, "segments")[0]["why"]


def test_many_transactions_and_epochs_stay_few(tmp_path: Path) -> None:
    batches = [data(3 * number, 3, producer_id=100 + number) for number in range(60)]
    write_segment(tmp_path / "t-0", 0, batches)
    lines = "\n".join(f"{number} {3 * number}" for number in range(60))
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text(f"0\n60\n{lines}\n")
    page = read_page(tmp_path, "/logs/0/t-0")
    bars, bands = items_of(page, "transaction"), items_of(page, "epoch")
    assert (len(bars), sum(bar["transactions"] for bar in bars)) == (8, 60)
    assert (len(bands), sum(band["epochs"] for band in bands)) == (40, 60)
    assert len(rows_of(page, "open_transactions")) == len(rows_of(page, "epochs")) == 60
    check_picture(section_of(page, "segments"))


def test_epochs_beyond_the_log_end(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [batch(0, [b"a"])])
    (tmp_path / "t-0" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n4 90\n")
    page = read_page(tmp_path, "/logs/0/t-0")
    assert [row["note"] for row in rows_of(page, "epochs")] == [None, "beyond the log end: a start removes the entry"]
    assert [band["end_offset"] for band in items_of(page, "epoch")] == [1]


def test_hostile_names_of_files_are_escaped(tmp_path: Path) -> None:
    path = tmp_path / "t-0"
    write_segment(path, 0, [plain(0)])
    (path / "<img src=x onerror=alert(2)>").mkdir()
    (path / "\x1b]0;owned\x07.tmp").write_bytes(b"")
    (path / "leader-epoch-checkpoint").write_text("0\n1\n<script>alert(1)</script>\n")
    mark_clean(tmp_path)
    with serving(tmp_path) as served:
        html, found = served.ready("/logs/0/t-0"), served.ready("/logs/0/t-0.json")
    assert (html.status, found.status) == (200, 200)
    assert "<img src=x onerror=alert(2)>" in [row["name"] for row in found.json["sections"]["files"]["rows"]]
    assert "<script>alert" not in html.text
    assert "<img src=x" not in html.text
    assert "\x1b" not in html.text + found.text


def test_wrong_urls(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    for url in ("/logs/0/t-1", "/logs/1/t-0", "/logs/0/..", "/logs/0/nonsense"):
        with pytest.raises(NotFoundError):
            read_page(tmp_path, url)
    for query in ("now=soon", "now=latest", "segments.sort=why", "segments.page=0", "files.size=0"):
        with pytest.raises(ConfigError):
            read_page(tmp_path, f"/logs/0/t-0?{query}")


def test_next_to_a_broker_that_changes_everything(tmp_path: Path) -> None:
    """The page stays whole while files are appended to, rolled, deleted and compacted."""
    command = [sys.executable, str(LIVE_BROKER), str(tmp_path), "1"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    ends: list[int] = []
    try:
        assert process.stdout.readline() == "ready\n"
        with serving(tmp_path) as served:
            begun = time.monotonic()
            while time.monotonic() < begun + 1 or len(set(ends)) < 3:
                assert time.monotonic() < begun + 60
                response = served.ready("/logs/0/t-0.json")
                assert response.status == 200, response.text
                page = response.json
                ends.append(page["facts"]["log_end"])
                assert len(page["sections"]["segments"]["rows"]) == page["facts"]["segments"] > 0
                assert not [note for note in page["notes"] if "failed" in note]
    finally:
        process.stdin.close()
        process.stdout.close()
        process.wait(timeout=60)
    assert ends == sorted(ends)


def test_the_partition_is_that_of_the_path(golden: GoldenFactory) -> None:
    page = read_page(golden(SCENARIOS), "/logs/0/dotted.topic-with_dash-1")
    assert facts_of(page)["partition"] == str(TopicPartition("dotted.topic-with_dash", 1))
    assert page.title == "dotted.topic-with_dash-1"
