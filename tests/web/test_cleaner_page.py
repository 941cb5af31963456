"""The pages about the cleaner: their numbers are those of ``tidelog compact``, and each rule has its reason."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from cli.runner import rows
from cluster_maker import write_metadata
from conftest import GoldenFactory
from golden_sets import CLUSTER, EVERYTHING, FLIGHTS, SCENARIOS, UNCLEAN_ELECTION, ZOOKEEPER
from log_maker import mark_clean, plain, write_segment
from tidelog.model import ConfigError
from tidelog.web.page import Page
from tidelog.web.page_json import page_json
from tidelog.web.sources import NotFoundError
from web.asgi_client import PATIENCE_S
from web.harness import check_picture, facts_of, read_page, rows_of, section_of, serving
from web.made_directories import cleaner_directory, setting

NUMBERS = ("first_dirty", "first_uncleanable", "clean_end", "clean_bytes", "dirty_bytes", "uncleanable_bytes")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a log directory with a topic for each rule; tests only read it."""
    return cleaner_directory(tmp_path_factory.mktemp("cleaner"), time.time_ns() // 1_000_000)


def by_log(page: Page) -> dict[str, dict[str, object]]:
    return {row["log"]: row for row in rows_of(page, "logs")}


@pytest.mark.parametrize("kind", ["clean", "unclean"])
@pytest.mark.parametrize("set_name", [FLIGHTS, SCENARIOS, EVERYTHING["4.4"]])
def test_the_numbers_of_the_command(golden: GoldenFactory, set_name: str, kind: str) -> None:
    path = golden(set_name, kind)
    expected = {row["name"]: row for row in rows("compact", path) if "compact" in row["cleanup_policy"]}
    page = read_page(path, "/cleaner")
    found = by_log(page)
    assert found.keys() == expected.keys()
    for name, row in found.items():
        assert [row[key] for key in NUMBERS] == [expected[name][key] for key in NUMBERS]
        assert row["dirty_ratio"] == expected[name]["dirty_ratio"]
        assert row["is_due"] == expected[name]["due"]
    assert facts_of(page)["compacted_logs"] == len(expected)
    assert facts_of(page)["due"] == sum(row["due"] for row in expected.values())


def test_several_log_directories(golden: GoldenFactory) -> None:
    brokers = golden(CLUSTER, UNCLEAN_ELECTION)
    page = read_page([brokers / f"broker{number}" for number in (1, 2, 3)], "/cleaner?topic=compact")
    assert {(row["log_dir"], row["log"]) for row in rows_of(page, "logs")} == {(key, "compacted-0") for key in "012"}
    disks = sorted((golden(ZOOKEEPER)).iterdir())
    assert rows_of(read_page([disk for disk in disks if disk.is_dir()], "/cleaner"), "logs")


def test_each_state_and_its_reason(made: Path) -> None:
    found = by_log(read_page(made, "/cleaner"))
    reasons = {name: str(row["why"]) for name, row in found.items()}
    assert reasons["due-0"] == "due: dirty ratio 1.00 > 0.5"
    assert reasons["half-0"] == "not due: dirty ratio 0.29 < 0.5"
    assert reasons["old-0"].startswith("due: records have been waiting 3 days longer than max.compaction.lag.ms, 7 day")
    assert reasons["open-0"] == "waits: an open transaction of producer 7 holds back the records from offset 10 on"
    assert reasons["behind-0"] == "waits: the high watermark is 15, and no record above it may be compacted"
    assert reasons["active-0"].endswith("in the active segment, which must roll first")
    assert reasons["empty-0"] == "clean: there is nothing to compact"
    assert "uncleanable: the CRC of a batch does not match" in reasons["damaged-0"]
    assert reasons["damaged-0"].endswith("at position 0 of 00000000000000000010.log (offset 10)")
    assert found["young-0"]["limit"] == "min_compaction_lag"
    assert "plain-0" not in found


def test_due_logs_come_first_and_the_state_filters(made: Path) -> None:
    names = [row["log"] for row in rows_of(read_page(made, "/cleaner"), "logs")]
    assert names[:5] == ["damaged-0", "due-0", "young-0", "old-0", "half-0"]
    assert [row["log"] for row in rows_of(read_page(made, "/cleaner?state=uncleanable"), "logs")] == ["damaged-0"]
    waiting = rows_of(read_page(made, "/cleaner?state=waits"), "logs")
    assert {row["log"] for row in waiting} == {"open-0", "behind-0", "active-0"}
    with pytest.raises(ConfigError):
        read_page(made, "/cleaner?state=lazy")


def test_the_picture_has_the_largest_ratios(made: Path) -> None:
    section = section_of(read_page(made, "/cleaner"), "logs")
    check_picture(section)
    assert section.picture is not None
    ratios = [item["dirty_ratio"] for item in section.picture.items]
    assert ratios == sorted(ratios, reverse=True)  # type: ignore[type-var]
    assert {item["log"] for item in section.picture.items} >= {"due-0", "half-0", "old-0"}


def test_reasons_lead_to_the_batch_and_the_transaction(made: Path) -> None:
    with serving(made, wait_seconds=PATIENCE_S) as served:
        html = served.ready("/cleaner").text
    assert '<a href="/logs/0/damaged-0/segments/10/batches/0">' in html
    assert '<a href="/logs/0/open-0/transactions">' in html
    assert '<a href="/logs/0/due-0/cleaner">' in html


def test_large_due_logs_are_searched_on_request(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.web.pages.cleaner.CHECKED_UNASKED_BYTES", 1)
    page = read_page(made, "/cleaner")
    assert str(by_log(page)["damaged-0"]["why"]).startswith("due: ")
    assert any("/cleaner?check=1" in note for note in page.notes)
    assert str(by_log(read_page(made, "/cleaner?check=1"))["damaged-0"]["why"]).startswith("uncleanable: ")


def test_one_log(made: Path) -> None:
    page = read_page(made, "/logs/0/half-0/cleaner")
    found = rows_of(page, "segments")
    assert [row["part"] for row in found] == ["clean"] * 5 + ["dirty"] * 2 + ["not cleanable"]
    assert {row["group"] for row in found} == {1, None}
    facts = facts_of(page)
    assert (facts["checkpointed"], facts["first_dirty"], facts["clean_end"], facts["log_end"]) == (50, 50, 70, 80)
    assert (facts["dirty_offsets"], facts["dirty_keys"], facts["fits"]) == (20, 7, True)
    assert sum(row["records_kept"] or 0 for row in found) == 7
    assert facts["freed_bytes"] == sum(row["bytes_freed"] or 0 for row in found)
    section = section_of(page, "segments")
    check_picture(section)
    assert section.picture is not None
    borders = {str(item["name"]): item for item in section.picture.items if item["kind"] == "border"}
    assert borders["first dirty offset"]["bytes_before"] == facts["clean_bytes"]
    assert borders["end of the clean"]["bytes_before"] == facts["clean_bytes"] + facts["dirty_bytes"]
    assert [link.title for link in page.trail][-1] == "half-0"


def test_many_segments_are_joined_in_the_picture(tmp_path: Path) -> None:
    for number in range(310):
        write_segment(tmp_path / "t-0", number, [plain(number, 1)])
    write_metadata(tmp_path, {"t": {}}, changes=[setting("t", "cleanup.policy", "compact")])
    mark_clean(tmp_path)
    section = section_of(read_page(tmp_path, "/logs/0/t-0/cleaner"), "segments")
    check_picture(section)
    assert section.picture is not None
    runs = [item for item in section.picture.items if item["kind"] == "segment"]
    assert len(runs) < 200
    assert sum(int(str(run["segments"])) for run in runs) == 310
    assert section.table is not None
    assert section.table.paging is not None
    assert (len(section.table.rows), section.table.paging.total) == (100, 310)


def test_a_damaged_log(made: Path) -> None:
    page = read_page(made, "/logs/0/damaged-0/cleaner")
    assert any(note.startswith("The next clean will fail: ") and "offset 10" in note for note in page.notes)
    assert facts_of(page)["freed_bytes"] is None
    assert len(rows_of(page, "segments")) == 4


def test_logs_that_are_not_cleaned(made: Path) -> None:
    assert read_page(made, "/logs/0/plain-0/cleaner").notes == [
        "The cleanup.policy of the topic is delete: the cleaner skips the log."
    ]
    [note] = read_page(made, "/logs/0/__cluster_metadata-0/cleaner").notes
    assert "skips the log" in note
    with pytest.raises(NotFoundError):
        read_page(made, "/logs/0/nothing-0/cleaner")


def test_a_directory_without_compacted_logs(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    mark_clean(tmp_path)
    section = section_of(read_page(tmp_path, "/cleaner"), "logs")
    assert section.table is not None
    assert section.table.empty == "No log here has compact in its cleanup.policy."
    assert section.picture is None


def test_settings_that_cannot_be_read(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    write_segment(tmp_path / "u-0", 0, [plain(0)])
    changes = [setting("t", "cleanup.policy", "<script>"), setting("u", "cleanup.policy", "compact")]
    write_metadata(tmp_path, {"t": {}, "u": {}}, changes=changes)
    page = read_page(tmp_path, "/cleaner")
    assert [row["log"] for row in rows_of(page, "logs")] == ["u-0"]
    assert any("The settings of the topic t cannot be read" in note for note in page.notes)
    [note] = read_page(tmp_path, "/logs/0/t-0/cleaner").notes
    assert "cannot be read" in note
    with serving(tmp_path) as served:
        assert "<script>" not in served.ready("/cleaner").text


def test_a_log_that_cannot_be_read(made: Path, tmp_path: Path) -> None:
    path = tmp_path / "copy"
    shutil.copytree(made, path)
    log = path / "due-0" / f"{110:020d}.log"
    log.unlink()
    log.mkdir()
    row = by_log(read_page(path, "/cleaner"))["due-0"]
    assert row["state"] == "unreadable"
    assert row["dirty_ratio"] is None
    [note] = read_page(path, "/logs/0/due-0/cleaner").notes
    assert note.startswith("unreadable: ")
    json.dumps(page_json(read_page(path, "/cleaner")))
