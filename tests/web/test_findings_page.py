"""Findings: numbers against ``tidelog verify``, links to the bytes, the damage map, and the check on demand."""

from __future__ import annotations

import shutil
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import fsspec
import pytest

from cli.runner import rows as command_rows
from conftest import GoldenFactory
from golden_sets import FLIGHTS, SCENARIOS
from log_maker import mark_clean, plain, write_segment
from tidelog.kernel import scan_batches
from tidelog.model import ConfigError
from tidelog.storage.fs import path_of
from tidelog.web.jobs import Jobs
from tidelog.web.page import Page
from tidelog.web.pages.findings import findings_page
from tidelog.web.query import Query
from tidelog.web.request import PageRequest
from tidelog.web.sources import NotFoundError, Sources
from web.harness import check_picture, facts_of, read_page, rows_of, section_of, serving

CELLS = ("severity", "position", "offset", "message", "next_good_position", "next_good_offset")
SETTLED = "loads it as it is"


def damage(directory: Path) -> Path:
    """Break two batches of flights-0, an index, an epoch checkpoint and the end of flights-2."""
    log = min((directory / "flights-0").glob("*.log"))
    data = bytearray(log.read_bytes())
    table = scan_batches(data)
    data[int(table.position[1]) + 100] ^= 0x10
    struct.pack_into(">i", data, int(table.position[2]) + 8, -5)
    log.write_bytes(data)
    min((directory / "flights-1").glob("*.timeindex")).write_bytes(b"\1" * 24)
    (directory / "flights-3" / "leader-epoch-checkpoint").write_text("0\n2\n0 0\n9 999999\n")
    last = max((directory / "flights-2").glob("*.log"))
    last.write_bytes(last.read_bytes()[:-33])
    (directory / "some-checkpoint.tmp").touch()
    return log


def expected(*paths: Path) -> list[dict[str, Any]]:
    return command_rows("verify", *paths, code=1)


def cells(rows: list[dict[str, Any]]) -> Counter[tuple[object, ...]]:
    return Counter((Path(str(row["file"])).name, *(row[name] for name in CELLS)) for row in rows)


def all_rows(page: Page, name: str) -> list[dict[str, Any]]:
    table = section_of(page, name).table
    assert table is not None
    assert table.paging is not None
    assert table.paging.pages == 1
    return rows_of(page, name)


def test_the_findings_and_outlooks_are_those_of_the_command(golden_copy: GoldenFactory) -> None:
    paths = [golden_copy(FLIGHTS, "unclean", "one"), golden_copy(FLIGHTS, "unclean", "two")]
    damage(paths[0])
    page = read_page(paths, "/findings?run=1&findings.size=1000&logs.size=1000")
    rows = expected(*paths)
    findings = [row for row in rows if row["kind"] == "finding"]
    assert cells(all_rows(page, "findings")) == cells(findings)
    facts = facts_of(page)
    severities = Counter(row["severity"] for row in findings)
    assert [facts["errors"], facts["warnings"], facts["notes"]] == [
        severities["error"],
        severities["warning"],
        severities["note"],
    ]
    outlooks = {
        (row["directory"], f"{row['topic']}-{row['partition']}"): row for row in rows if row["kind"] == "outlook"
    }
    assert facts["logs"] == len(outlooks)
    assert facts["settled_logs"] == sum(row["message"] == SETTLED for row in outlooks.values())
    for row in all_rows(page, "logs"):
        of_command = outlooks[row["directory"], row["log"]]
        assert (row["outlook"], row["log_start"], row["log_end"]) == (
            of_command["message"],
            of_command["log_start"],
            of_command["log_end"],
        )
    logs = [file for path in paths for file in path.glob("*-*/*.log")]
    assert facts["bytes_read"] == sum(file.stat().st_size for file in logs)
    check_picture(section_of(page, "damage"))


def test_links_lead_to_the_bytes(golden_copy: GoldenFactory) -> None:
    path = golden_copy(FLIGHTS)
    log = damage(path)
    base = int(log.stem)
    table = scan_batches(golden_bytes(log, path, golden_copy))
    page = read_page(path, "/logs/0/flights-0/findings")
    by_file = {(row["file"], row["position"]): row for row in rows_of(page, "findings")}
    broken = by_file[log.name, int(table.position[1])]
    segment = f"/logs/0/flights-0/segments/{base}"
    assert broken["urls"]["file"] == segment
    assert broken["urls"]["position"] == f"{segment}/batches/{table.position[1]}"
    assert broken["urls"]["offset"] == f"/logs/0/flights-0/records?start={table.base_offset[1]}"
    gone = by_file[log.name, int(table.position[2])]
    assert gone["urls"]["next_good_position"] == f"{segment}/batches/{table.position[3]}"
    assert gone["next_good_position"] == int(table.position[3])
    index = next(row for row in rows_of(page, "findings") if row["file"].endswith(".index"))
    assert (index["urls"]["file"], index["urls"]["position"]) == (segment, None)
    page = read_page(path, "/findings?run=1&log=flights-3")
    (epoch,) = rows_of(page, "findings")
    assert epoch["offset"] == 999999
    assert (epoch["urls"]["offset"], epoch["urls"]["file"]) == (None, "/logs/0/flights-3")
    (leftover,) = (row for row in rows_of(read_page(path, "/findings?run=1&severity=note"), "findings"))
    assert (leftover["file"], leftover["urls"]["file"]) == ("some-checkpoint.tmp", "/logs/0")


def golden_bytes(log: Path, copy: Path, golden_copy: GoldenFactory) -> bytes:
    """Return the undamaged bytes of a file of a copy."""
    return (golden_copy(FLIGHTS, "clean", "again") / log.relative_to(copy)).read_bytes()


def test_the_damage_map_has_the_bytes_of_the_log(golden_copy: GoldenFactory) -> None:
    path = golden_copy(FLIGHTS)
    log = damage(path)
    page = read_page(path, "/logs/0/flights-0/findings")
    picture = section_of(page, "damage").picture
    assert picture is not None
    check_picture(section_of(page, "damage"))
    segments = [item for item in picture.items if "severity" not in item]
    sizes = [file.stat().st_size for file in sorted((path / "flights-0").glob("*.log"))]
    assert [int(str(item["end"])) - int(str(item["start"])) for item in segments] == sizes
    first = next(item for item in picture.items if item.get("severity") == "error")
    assert (first["segment"], first["findings"]) == (int(log.stem), 2)
    broken = next(row for row in rows_of(page, "findings") if "CRC" in row["message"])
    gone = next(row for row in rows_of(page, "findings") if "no batch" in row["message"])
    assert (first["start"], first["end"]) == (broken["position"], gone["next_good_position"])


def test_a_log_without_findings(golden: GoldenFactory) -> None:
    page = read_page(golden(FLIGHTS), "/logs/0/flights-0/findings")
    facts = facts_of(page)
    assert (facts["errors"], facts["warnings"], facts["notes"], facts["outlook"]) == (0, 0, 0, SETTLED)
    assert section_of(page, "damage").picture is None
    with pytest.raises(NotFoundError):
        read_page(golden(FLIGHTS), "/logs/0/nothing-0/findings")
    with pytest.raises(ConfigError):
        read_page(golden(FLIGHTS), "/logs/0/flights-0/findings?severity=bad")


def test_the_check_of_everything_starts_on_demand_and_its_report_is_kept(golden: GoldenFactory) -> None:
    path = golden(SCENARIOS)
    size = sum(file.stat().st_size for file in path.glob("*-*/*.log"))
    with serving(path) as served:
        plan = served.get("/findings.json").json
        while plan["facts"]["bytes_to_read"] is None:
            plan = served.get("/findings.json").json
        assert plan["facts"]["bytes_to_read"] == size
        assert list(plan["sections"]) == ["plan"]
        assert "/findings?run=1" in served.get("/findings").text
        report = served.ready("/findings.json?run=1").json
        assert report["facts"]["bytes_read"] == size
        again = served.get("/findings.json").json
        assert again["facts"]["checked_at"] == report["facts"]["checked_at"]
        newer = served.ready(f"/findings.json?run=1&newer={report['facts']['checked_at']}").json
        assert newer["facts"]["checked_at"] > report["facts"]["checked_at"]


def test_a_directory_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    for name in ("gone", "there"):
        write_segment(tmp_path / name / "t-0", 0, [plain(0)])
        mark_clean(tmp_path / name)
    (tmp_path / "there" / "t-0" / f"{0:020}.log").write_bytes(b"x" * 300)
    sources = Sources.of([tmp_path / "gone", tmp_path / "there"])
    shutil.rmtree(tmp_path / "gone")
    jobs = Jobs(wait_seconds=None)
    try:
        page = findings_page(PageRequest(sources=sources, jobs=jobs, query=Query.parse("run=1&dir=1")))
    finally:
        jobs.close()
    (note,) = page.notes
    assert f"{tmp_path / 'gone'} cannot be checked" in note
    assert {row["directory"] for row in rows_of(page, "findings")} == {str(tmp_path / "there")}
    check_picture(section_of(page, "damage"))


def test_a_heavily_damaged_log_has_few_items(tmp_path: Path) -> None:
    batches = [plain(10 * number) for number in range(2000)]
    for number in range(0, 2000, 2):
        batches[number] = batches[number][:80] + b"!" + batches[number][81:]
    for first in range(0, 2000, 10):
        write_segment(tmp_path / "t-0", 10 * first, batches[first : first + 10])
    mark_clean(tmp_path)
    page = read_page(tmp_path, "/logs/0/t-0/findings")
    check_picture(section_of(page, "damage"))
    picture = section_of(page, "damage").picture
    assert picture is not None
    assert len(picture.items) <= 300
    assert sum(int(str(item.get("findings", 0))) for item in picture.items) >= 1000
    table = section_of(page, "findings").table
    assert table is not None
    assert table.paging is not None
    assert table.paging.total >= 1000
    assert len(table.rows) == 100


def test_object_storage(golden_copy: GoldenFactory) -> None:
    path = golden_copy(FLIGHTS)
    log = damage(path)
    store = fsspec.filesystem("memory")
    for file in (path / "flights-0").iterdir():
        store.pipe(f"/findings/kafka/flights-0/{file.name}", file.read_bytes())
    store.pipe("/findings/kafka/meta.properties", (path / "meta.properties").read_bytes())
    store.pipe("/findings/kafka/.kafka_cleanshutdown", (path / ".kafka_cleanshutdown").read_bytes())
    page = read_page([path_of("memory://findings/kafka")], "/logs/0/flights-0/findings")
    local = read_page(path, "/logs/0/flights-0/findings")
    assert [row | {"directory": ""} for row in rows_of(page, "findings") if row["file"] == log.name] == [
        row | {"directory": ""} for row in rows_of(local, "findings") if row["file"] == log.name
    ]
