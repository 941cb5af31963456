"""``tidelog retention``: rows, tables, notes, options, exit codes."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path

from cli.runner import rows, run
from conftest import GoldenFactory
from golden_sets import FLIGHTS, FORMATS, SCENARIOS
from log_maker import BASE_TIME, batch, mark_clean, plain, write_segment

WEEK = 7 * 24 * 3_600_000


def test_a_row_a_segment(golden: GoldenFactory) -> None:
    found = rows("retention", golden(FLIGHTS), "flights-0")
    assert [row["base_offset"] for row in found] == [0, 594, 1201, 1799, 2414, 3025, 3654, 4287, 4895, 5458]
    first, last = found[0], found[-1]
    assert {row["goes"] for row in found} == {"next_check"}
    assert {row["rule"] for row in found} == {"time"}
    assert (first["last_offset"], first["bytes"], first["time_from"], first["active"]) == (
        593,
        32338,
        "timeindex",
        False,
    )
    assert (last["last_offset"], last["time_from"], last["active"]) == (6065, "records", True)
    assert first["settings_from"] == {
        "cleanup.policy": "default",
        "retention.ms": "default",
        "retention.bytes": "default",
    }
    assert (first["cleanup_policy"], first["retention_ms"], first["retention_bytes"]) == (["delete"], WEEK, -1)
    assert (first["high_watermark"], first["high_watermark_from"]) == (6066, "only_replica")


def test_every_format_has_the_same_rows(golden: GoldenFactory) -> None:
    directory = golden(SCENARIOS)
    found = rows("retention", directory, "plain", "compacted")
    lines = run("retention", directory, "plain", "compacted", "--jsonl").stdout.splitlines()
    assert [json.loads(line) for line in lines] == found
    table = list(csv.DictReader(io.StringIO(run("retention", directory, "plain", "compacted", "--csv").stdout)))
    assert [(row["topic"], int(row["base_offset"]), row["why"]) for row in table] == [
        (row["topic"], row["base_offset"], row["why"]) for row in found
    ]


def test_as_of_another_time(golden: GoldenFactory) -> None:
    """A segment stays until exactly a week after its last record, and goes one millisecond later."""
    before = rows("retention", golden(FLIGHTS), "flights-0", "--now", "2001-04-07T20:51")
    assert [row["goes"] for row in before] == ["next_check"] * 9 + ["time"]
    assert before[-1]["goes_at"] == before[-1]["time"] + WEEK + 1
    after = rows("retention", golden(FLIGHTS), "flights-0", "--now", before[-1]["goes_at"])
    assert {row["goes"] for row in after} == {"next_check"}
    text = run("retention", golden(FLIGHTS), "flights-0", "--now", "2001-04-07T20:00").stdout
    assert "2001-04-07T20:51:00.001Z" in text
    assert "its newest record is 6 days 23 hours old, retention.ms is 7 days; active: appends make it younger" in text
    assert "As of 2001-04-07T20:00:00.000Z. Nothing was changed." in text


def test_the_table_says_settings_offsets_and_what_goes(golden: GoldenFactory) -> None:
    text = run("retention", golden(SCENARIOS), "plain-1", "compacted").stdout
    assert (
        "plain-1: cleanup.policy delete (default), retention.ms 7 days (default), retention.bytes -1 (default)" in text
    )
    assert "log [0, 1,000), high watermark 1,000 (the only replica)" in text
    assert "compacted-0: cleanup.policy compact (topic)" in text
    assert "cleanup.policy is compact: only segments below the log start are deleted" in text
    assert "the next check deletes 8 of 13 segments" in text
    assert f"Topic settings are those of the cluster metadata in {golden(SCENARIOS)}." in text
    quiet = run("retention", golden(SCENARIOS), "plain-1", "--quiet").stdout
    assert "Topic settings" not in quiet


def test_a_directory_without_metadata_says_so(golden: GoldenFactory) -> None:
    text = run("retention", golden(FORMATS), "v1-gzip-0").stdout
    assert "There is no cluster metadata here: set the topics' settings with --config or --config-file." in text


def test_settings_from_the_command_line_and_from_a_file(golden: GoldenFactory, tmp_path: Path) -> None:
    directory = golden(FLIGHTS)
    by_size = rows(
        "retention", directory, "flights-0", "--config", "retention.bytes=100000", "--config", "retention.ms=-1"
    )
    assert [row["rule"] for row in by_size] == ["size"] * 6 + [None] * 4
    assert by_size[6]["goes"] == "size"
    assert by_size[6]["after_bytes"] == 100_000 - sum(row["bytes"] for row in by_size[7:])
    assert by_size[6]["settings_from"]["retention.bytes"] == "--config"
    server = tmp_path / "server.properties"
    server.write_text("# a broker's\nlog.dirs=/data\nlog.retention.hours=-1\nlog.retention.bytes = 100000\n")
    from_file = rows("retention", directory, "flights-0", "--config-file", server)
    assert [row["rule"] for row in from_file] == [row["rule"] for row in by_size]
    assert from_file[0]["settings_from"]["retention.bytes"] == "server.properties"


def test_timestamps_in_the_future(tmp_path: Path) -> None:
    ahead = batch(10, [b"a"], timestamp=4_000_000_000_000)
    write_segment(tmp_path / "t-0", 0, [plain(0, 10), ahead])
    write_segment(tmp_path / "t-0", 11, [plain(11, 10)])
    mark_clean(tmp_path)
    first, second = rows("retention", tmp_path, "--now", BASE_TIME + 2 * WEEK)
    assert (first["goes"], first["future_offset"], first["future_timestamp"]) == ("time", 10, 4_000_000_000_000)
    assert first["causes"] == ["future_timestamp", "unlimited_size"]
    assert (second["waits_for"], second["goes_at"]) == (0, first["goes_at"])
    text = run("retention", tmp_path, "--now", BASE_TIME + 2 * WEEK).stdout
    assert "future timestamp: the record at offset 10 is dated 2096-10-02T07:06:40.000Z, 72 years" in text
    assert "Segments kept by timestamps in the future: 1. Waiting for one before them: 1." in text


def test_several_directories(golden: GoldenFactory) -> None:
    text = run("retention", golden(FLIGHTS), golden(SCENARIOS), "airports", "plain-0").stdout
    assert f"{golden(FLIGHTS)}: airports-0: cleanup.policy compact (topic)" in text
    assert f"{golden(SCENARIOS)}: plain-0: cleanup.policy delete (default)" in text
    found = rows("retention", golden(FLIGHTS), golden(SCENARIOS), "airports", "plain-0")
    assert {row["directory"] for row in found} == {str(golden(FLIGHTS)), str(golden(SCENARIOS))}


def test_an_empty_log(golden: GoldenFactory) -> None:
    (row,) = rows("retention", golden(SCENARIOS), "empty")
    assert (row["last_offset"], row["goes"], row["why"]) == (
        None,
        "never",
        "active and empty: a log always keeps one segment",
    )


def test_what_cannot_be_read(golden_copy: GoldenFactory, tmp_path: Path) -> None:
    directory = golden_copy(FLIGHTS)
    for path in (directory / "airports-0").glob("*.log"):
        path.unlink()
        path.mkdir()
    broken, *good = rows("retention", directory, "airports", "flights-3", code=3)
    assert broken["error"]
    assert broken["base_offset"] is None
    assert list(broken) == list(good[0])
    assert "Error: " in run("retention", directory, "airports", "flights-3", code=3).stdout
    run("retention", tmp_path / "nowhere", code=3)


def test_wrong_usage(golden: GoldenFactory, tmp_path: Path) -> None:
    directory = golden(FLIGHTS)
    assert "is not KEY=VALUE" in run("retention", directory, "--config", "retention.ms", code=2).stderr
    refused = run("retention", directory, "--config", "retention.ms=7 days", code=2).stderr
    assert "Invalid value 7 days for configuration retention.ms" in refused
    assert "Unknown topic config name" in run("retention", directory, "--config", "log.retention.ms=1", code=2).stderr
    assert "is not a time" in run("retention", directory, "--now", "latest", code=2).stderr
    assert "does not exist" in run("retention", directory, "--config-file", tmp_path / "none", code=2).stderr
    (tmp_path / "bad").write_text("a=\\u00zz\n")
    assert "cannot be read" in run("retention", directory, "--config-file", tmp_path / "bad", code=2).stderr
