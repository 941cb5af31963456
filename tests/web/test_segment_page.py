"""The page of a segment: its facts, the reason why it stays, index density, batches by position, damage."""

from __future__ import annotations

import shutil
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from conftest import GoldenFactory
from golden_sets import EVERYTHING, SCENARIOS
from log_maker import batch, data, mark_clean, marker, plain, write_checkpoint, write_segment
from tidelog.inspect.retention import survey_retention
from tidelog.inspect.retention.sentences import why_text
from tidelog.model import TopicPartition
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.survey.setting_sources import read_setting_sources
from tidelog.storage.segment.segment_reader import SegmentReader
from tidelog.web.page import Page
from tidelog.web.page_json import page_json
from tidelog.web.sources import NotFoundError
from web.harness import check_picture, facts_of, read_page, rows_of, section_of, serving


def url(log: str, base: int, query: str = "") -> str:
    return f"/logs/0/{log}/segments/{base}{query}"


def link_of(page: Page, section: str, title: str) -> str | None:
    """Return the query of a section's link."""
    return next((link.url.partition("#")[0] for link in section_of(page, section).links if link.title == title), None)


@pytest.mark.parametrize("log", ["plain-0", "txn-0", "zstd-0", "compacted-0", "big-0"])
def test_facts_and_batches_are_those_of_the_table(log: str, golden: GoldenFactory) -> None:
    root = golden(SCENARIOS)
    for path in sorted((root / log).glob("*.log"))[:4]:
        page = read_page(root, url(log, int(path.stem)))
        facts, rows = facts_of(page), rows_of(page, "batches")
        with SegmentReader(LOCAL, path.parent, int(path.stem)) as reader:
            table = reader.table()
        assert facts["bytes"] == path.stat().st_size
        assert facts["batches"] == len(table)
        assert facts["records"] == int(table.record_count.sum())
        assert facts["damages"] == 0
        shown = [(row["position"], row["base_offset"], row["last_offset"], row["records"], row["size"]) for row in rows]
        expected = [
            (row.position, row.base_offset, row.last_offset, row.record_count, row.size) for row in table.rows()
        ]
        assert shown == expected[:100]
        assert not page.notes
        check_picture(section_of(page, "density"))


def test_files_are_those_of_the_directory(golden: GoldenFactory) -> None:
    root = golden(SCENARIOS, "unclean")
    rows = rows_of(read_page(root, url("plain-0", 882)), "files")
    found = {path.name: path.stat().st_size for path in (root / "plain-0").glob(f"{882:020d}*")}
    assert {row["file"]: row["bytes"] for row in rows} == found
    entries = {row["file"].rpartition(".")[2]: row["entries"] for row in rows}
    assert entries["index"] == 3
    items = page_json(read_page(root, url("plain-0", 882)))["sections"]["density"]["picture"]
    files = {item["file"]: (item["used"], item["size"]) for item in items if item["kind"] == "file"}
    assert files == {".index": (24, 65536), ".timeindex": (36, 65532)}


def test_the_reason_is_that_of_the_retention_command(golden: GoldenFactory) -> None:
    root = golden(SCENARIOS)
    settings = read_setting_sources(LOCAL, [root])[root]
    for log in ("plain-0", "compacted-0", "__cluster_metadata-0"):
        partition = TopicPartition.from_directory_name(log)
        page = read_page(root, url(log, int(sorted((root / log).glob("*.log"))[0].stem)))
        text = section_of(page, "why").text
        now = 4 * 10**12
        retention = survey_retention(LOCAL, root, settings, now_ms=now, only=[partition])[0]
        outlook = retention.outlooks[0]
        words = why_text(retention, outlook).partition(":")[0]
        assert words[1:12] in text
        assert section_of(page, "why").links[0].url == f"/logs/0/{log}"


@pytest.mark.parametrize(
    ("log", "words"),
    [
        ("t-0.0123456789abcdef0123456789abcdef-delete", "Its log is deleted"),
        ("t-0.0123456789abcdef0123456789abcdef-stray", "Its log is stray"),
        ("t-0.0123456789abcdef0123456789abcdef-future", "The next check of retention deletes it"),
    ],
)
def test_the_reason_in_a_directory_with_a_suffix(log: str, words: str, small_dir: Path) -> None:
    write_segment(small_dir / log, 0, [plain(0, 3)])
    assert (section_of(read_page(small_dir, url(log, 0)), "why").text or "").startswith(words)


def test_index_entries_link_to_their_batches(golden: GoldenFactory) -> None:
    root = golden(SCENARIOS)
    page = read_page(root, url("txn-0", 0))
    with SegmentReader(LOCAL, root / "txn-0", 0) as reader:
        table = reader.table()
        positions = set(table.position.tolist())
        assert [row["position"] for row in rows_of(page, "index")] == reader.offset_hints.positions.tolist()
        times = rows_of(page, "timeindex")
        assert [row["timestamp"] for row in times] == reader.time_hints.timestamps.tolist()
    for row in times:
        assert row["batch_position"] in positions
        at = table.position.tolist().index(row["batch_position"])
        assert table.base_offset[at] <= row["offset"] <= table.last_offset[at]
    aborted = rows_of(page, "txnindex")
    assert aborted
    for row in aborted:
        at = table.position.tolist().index(row["batch_position"])
        assert table.is_control[at]
        assert table.last_offset[at] == row["last_offset"]


def walked(root: Path, log: str, size: int) -> list[list[int]]:
    """Follow the next links, then the previous ones, and return the positions of the forward pages."""
    forward, query = [], f"?batches={size}"
    while True:
        page = read_page(root, url(log, 0, query))
        forward.append([row["position"] for row in rows_of(page, "batches")])
        following = link_of(page, "batches", "Next")
        if following is None:
            break
        query = following
    backward = [forward[-1]]
    while (previous := link_of(page, "batches", "Previous")) is not None:
        page = read_page(root, url(log, 0, previous))
        backward.append([row["position"] for row in rows_of(page, "batches")])
    assert sorted({position for rows in backward for position in rows}) == [p for rows in forward for p in rows]
    return forward


def test_pages_forward_and_backward_have_all_batches(tmp_path: Path) -> None:
    mark_clean(tmp_path)
    write_segment(tmp_path / "t-0", 0, [plain(number * 3, 3, size=100) for number in range(333)], interval_bytes=4096)
    with SegmentReader(LOCAL, tmp_path / "t-0", 0) as reader:
        expected = reader.table().position.tolist()
    for size in (30, 100):
        pages = walked(tmp_path, "t-0", size)
        assert [position for rows in pages for position in rows] == expected
    last = link_of(read_page(tmp_path, url("t-0", 0, "?batches=10")), "batches", "Last")
    assert last is not None
    page = read_page(tmp_path, url("t-0", 0, last))
    assert [row["position"] for row in rows_of(page, "batches")] == expected[-10:]
    assert link_of(page, "batches", "Next") is None


def test_a_position_inside_a_batch_begins_with_the_batch(tmp_path: Path) -> None:
    mark_clean(tmp_path)
    batches = [plain(number * 3, 3) for number in range(30)]
    write_segment(tmp_path / "t-0", 0, batches, interval_bytes=500)
    size = len(batches[0])
    page = read_page(tmp_path, url("t-0", 0, f"?position={7 * size + 3}"))
    assert rows_of(page, "batches")[0]["position"] == 7 * size
    assert "No batch begins" in page.notes[0]
    page = read_page(tmp_path, url("t-0", 0, "?position=99999999"))
    assert rows_of(page, "batches")[0]["position"] == 0
    assert page.notes


def test_one_page_of_batches_reads_a_bounded_range(tmp_path: Path) -> None:
    mark_clean(tmp_path)
    write_segment(tmp_path / "t-0", 0, [batch(number, [bytes(900_000)]) for number in range(12)])
    page = read_page(tmp_path, url("t-0", 0))
    rows = rows_of(page, "batches")
    assert 3 <= len(rows) <= 6
    following = link_of(page, "batches", "Next")
    assert following is not None
    assert rows_of(read_page(tmp_path, url("t-0", 0, following)), "batches")[0]["base_offset"] == len(rows)


def density(root: Path, log: str, query: str = "") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = page_json(read_page(root, url(log, 0, query)))["sections"]["density"]["picture"]
    return found


def test_the_density_of_many_entries_is_joined_into_runs(tmp_path: Path) -> None:
    mark_clean(tmp_path)
    write_segment(tmp_path / "t-0", 0, [plain(number * 3, 3) for number in range(3000)], interval_bytes=0)
    items = density(tmp_path, "t-0")
    index = [item for item in items if item["kind"] == "index"]
    gaps = [item for item in items if item["kind"] == "gap"]
    assert sum(item["entries"] for item in index) == 2999
    assert len(index) <= 300
    assert len(gaps) <= 300
    assert sum(item["gaps"] for item in gaps) == 3000
    assert [gaps[0]["from"], gaps[-1]["to"]] == [0, (tmp_path / "t-0" / f"{0:020d}.log").stat().st_size]
    assert all(first["to"] == second["from"] for first, second in pairwise(gaps))
    assert sum(item["entries"] for item in items if item["kind"] == "time") == 2999
    check_picture(section_of(read_page(tmp_path, url("t-0", 0)), "density"))


def test_a_gap_without_entries_is_wide(tmp_path: Path) -> None:
    mark_clean(tmp_path)
    path = write_segment(tmp_path / "t-0", 0, [plain(n * 3, 3, size=500) for n in range(300)], interval_bytes=4096)
    index = path.with_suffix(".index")
    entries = index.read_bytes()
    index.write_bytes(entries[:80] + entries[400:])
    wide = [item for item in density(tmp_path, "t-0") if item["kind"] == "gap" and item["is_wide"]]
    assert len(wide) == 1
    assert wide[0]["largest_gap"] > 100_000


@pytest.mark.parametrize("kind", ["crc", "magic"])
def test_damage_in_the_middle_is_a_row(kind: str, tmp_path: Path) -> None:
    mark_clean(tmp_path)
    batches = [plain(number * 3, 3) for number in range(30)]
    path = write_segment(tmp_path / "t-0", 0, batches, interval_bytes=500)
    at = sum(map(len, batches[:9]))
    content = bytearray(path.read_bytes())
    content[at + (80 if kind == "crc" else 16)] ^= 0x55
    path.write_bytes(bytes(content))
    page = read_page(tmp_path, url("t-0", 0))
    rows = rows_of(page, "batches")
    bad = [row for row in rows if row["problem"]]
    assert [(row["position"], row["size"]) for row in bad] == [(at, len(batches[9]))]
    assert [row["crc"] for row in bad] == ["bad" if kind == "crc" else None]
    assert [row["base_offset"] for row in rows if not row["problem"]] == [n * 3 for n in range(30) if n != 9]
    assert facts_of(page)["damages"] == 1
    drawn = [item for item in page_json(page)["sections"]["density"]["picture"] if item["kind"] == "damage"]
    assert [(item["from"], item["to"]) for item in drawn] == [(at, at + len(batches[9]))]
    check_picture(section_of(page, "density"))
    assert any(f"at position {at:,}" in note for note in page.notes)


def test_bytes_after_the_last_batch_have_a_reason(golden_copy: GoldenFactory) -> None:
    root = golden_copy(EVERYTHING["4.4"], "unclean")
    path = sorted((root / "plain-0").glob("*.log"))[-1]
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + b"\x11" * 500)
    page = read_page(root, url("plain-0", int(path.stem)))
    section = section_of(page, "tail")
    assert f"500 bytes from position {size:,} on" in section.text
    assert rows_of(page, "tail")[0]["hex"].startswith("11 11")
    tail = [item for item in page_json(page)["sections"]["density"]["picture"] if item["kind"] == "tail"]
    assert tail == [{"kind": "tail", "from": size, "to": size + 500}]
    path.write_bytes(path.read_bytes()[:size] + bytes(700))
    assert "zeros" in section_of(read_page(root, url("plain-0", int(path.stem))), "tail").text


def test_a_segment_after_the_log_end_says_that_a_start_deletes_it(tmp_path: Path) -> None:
    first = write_segment(tmp_path / "t-0", 0, [plain(0, 3), plain(3, 3)])
    write_segment(tmp_path / "t-0", 6, [plain(6, 3)])
    content = bytearray(first.read_bytes())
    content[-1] ^= 1
    first.write_bytes(bytes(content))
    page = read_page(tmp_path, url("t-0", 6))
    assert facts_of(page)["state"] == "no part of the log"
    assert "A start of the broker removes it" in section_of(page, "why").text
    assert rows_of(page, "batches")[0]["base_offset"] == 6
    shutil.move(tmp_path / "t-0" / f"{6:020d}.log", tmp_path / "t-0" / f"{6:020d}.log.deleted")
    page = read_page(tmp_path, url("t-0", 6))
    assert rows_of(page, "batches")[0]["base_offset"] == 6
    assert any(row["state"] == "waits for its removal" for row in rows_of(page, "files"))


def test_transactions_are_flagged(tmp_path: Path) -> None:
    write_segment(tmp_path / "t-0", 0, [data(0, 2), marker(2, False)])
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {"t-0": 0})
    page = read_page(tmp_path, url("t-0", 0))
    assert [row["flags"] for row in rows_of(page, "batches")] == [["transactional"], ["transactional", "control"]]
    assert facts_of(page)["control_batches"] == 1


def test_damaged_indexes_are_shown_with_their_faults(tmp_path: Path) -> None:
    mark_clean(tmp_path)
    path = write_segment(tmp_path / "t-0", 0, [plain(n * 3, 3) for n in range(60)], interval_bytes=300)
    index = path.with_suffix(".index")
    content = bytearray(index.read_bytes())
    content[24:32] = struct.pack(">ii", -5, 2**31 - 1)
    index.write_bytes(bytes(content) + b"odd")
    times = path.with_suffix(".timeindex")
    times.write_bytes(b"\xff" * 50)
    path.with_suffix(".txnindex").write_bytes(b"\x07" * 40)
    page = read_page(tmp_path, url("t-0", 0))
    rows = rows_of(page, "index")
    assert rows[3]["fault"] == "the position lies outside the .log"
    assert rows[2]["fault"] is None
    assert "3 bytes are left" in section_of(page, "index").text
    assert "cannot be read" in section_of(page, "txnindex").text
    assert rows_of(page, "timeindex")
    check_picture(section_of(page, "density"))


def test_missing_segments_and_parameters(tmp_path: Path) -> None:
    mark_clean(tmp_path)
    write_segment(tmp_path / "t-0", 0, [plain(0, 3)])
    write_segment(tmp_path / "empty-0", 0, [])
    with pytest.raises(NotFoundError):
        read_page(tmp_path, url("t-0", 1))
    with serving(tmp_path) as served:
        assert served.ready(url("t-0", 0)).status == 200
        assert served.ready(url("t-0", 0, "?position=x")).status == 400
        assert served.ready(url("t-0", 0, "?batches=501")).status == 400
        assert served.ready(url("empty-0", 0)).status == 200
        assert served.ready(url("t-0", 10**19)).status == 404
        assert served.ready("/logs/0/none-0/segments/0").status == 404


def test_random_bytes_never_make_an_internal_error(tmp_path: Path) -> None:
    for kind in ("clean", "unclean"):
        root = tmp_path / kind
        path = write_segment(root / "t-0", 0, [plain(0, 3)])
        if kind == "clean":
            mark_clean(root)
        with serving(root) as served:
            for content in (b"", b"\0" * 400, b"\xff" * 400, b"\0" * 16 + b"\2" + b"\x7f" * 200, bytes(range(256)) * 9):
                for extension in (".log", ".index", ".timeindex", ".txnindex"):
                    path.with_suffix(extension).write_bytes(content)
                assert served.ready(url("t-0", 0)).status == 200
