"""The pages of producers, compared with the snapshots and batches that kafka-dump-log prints."""

from __future__ import annotations

import re
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from conftest import GoldenFactory
from golden_sets import EVERYTHING, FLIGHTS, SCENARIOS
from log_maker import BASE_TIME, CONTROL, TRANSACTIONAL, batch, data, mark_clean, plain, write_segment
from tidelog.model import ConfigError
from tidelog.storage.producer.entry import CachedBatch, ProducerEntry
from tidelog.storage.producer.snapshot import format_snapshot
from tidelog.web.svg.lane_runs import MOST_ITEMS
from web.asgi_client import asgi_client
from web.harness import check_picture, facts_of, read_page, rows_of, section_of

NEWEST = EVERYTHING["4.4"]
DAY_MS = 86_400_000
ENTRY = re.compile(
    r"^producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: OptionalLong(\S+)"
    r" lastTimestamp: (\d+) firstSequence: \d+ lastSequence: (\d+) lastOffset: (\d+) ",
    re.MULTILINE,
)


def dumped(golden: GoldenFactory, set_name: str, log: str) -> dict[int, tuple[Any, ...]]:
    """Return the entries of a log's newest snapshot as kafka-dump-log prints them, by producer id."""
    text = (golden(set_name, "dump-clean") / f"{log}.txt").read_text()
    newest = re.split(r"^Dumping \S+\.snapshot$", text, flags=re.MULTILINE)[-1]
    found = {}
    for line in ENTRY.finditer(newest):
        producer_id, epoch, coordinator, first, timestamp, sequence, offset = line.groups()
        opened = None if first == ".empty" else int(first.strip("[]"))
        coordinator_epoch = None if coordinator == "-1" else int(coordinator)
        values = (int(epoch), coordinator_epoch, opened, int(timestamp), int(sequence), int(offset))
        found[int(producer_id)] = values
    return found


@pytest.mark.parametrize(
    ("set_name", "log"),
    [(NEWEST, "txn-0"), (NEWEST, "txn-1"), (NEWEST, "plain-2"), (SCENARIOS, "txn-0"), (FLIGHTS, "flights-eos-1")],
)
@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_the_producers_are_those_of_kafkas_snapshot(golden: GoldenFactory, set_name: str, log: str, kind: str) -> None:
    """The newest snapshot is older after an unclean shutdown, and the batches after it tell the rest."""
    page = read_page(golden(set_name, kind), f"/logs/0/{log}/producers")
    names = ["producer_epoch", "coordinator_epoch", "transaction_first_offset", "last_timestamp"]
    names += ["last_sequence", "last_offset"]
    found = {row["producer_id"]: tuple(row[name] for name in names) for row in rows_of(page, "producers")}
    expected = dumped(golden, set_name, log)
    assert expected
    assert found == expected
    assert facts_of(page)["producers"] == len(expected)
    for row in rows_of(page, "producers"):
        is_open = row["transaction_first_offset"] is not None
        assert row["expires"] == (None if is_open else row["last_timestamp"] + DAY_MS)


@pytest.mark.parametrize(("set_name", "log"), [(NEWEST, "txn-0"), (SCENARIOS, "txn-0"), (FLIGHTS, "flights-eos-0")])
def test_the_lanes_are_the_batches_that_kafka_dumps(golden: GoldenFactory, set_name: str, log: str) -> None:
    text = (golden(set_name, "dump-clean") / f"{log}.txt").read_text()
    expected = Counter(
        (int(producer_id), is_control == "true")
        for producer_id, is_control in re.findall(
            r"^baseOffset: .* producerId: (\d+) .* isControl: (\w+) ", text, re.MULTILINE
        )
    )
    page = read_page(golden(set_name), f"/logs/0/{log}/producers")
    section = section_of(page, "lanes")
    check_picture(section)
    found: Counter[tuple[int, bool]] = Counter()
    for row in rows_of(page, "lanes"):
        assert row["batches"] == row["data"] + row["commits"] + row["aborts"]
        found[row["producer_id"], False] += row["data"]
        found[row["producer_id"], True] += row["commits"] + row["aborts"]
    assert +found == expected


def test_all_producers_by_their_snapshots(golden: GoldenFactory) -> None:
    path = golden(SCENARIOS)
    page = read_page(path, "/producers?logs.size=1000&by_id.size=1000")
    logs = {row["log"]: row for row in rows_of(page, "logs")}
    files = list(path.glob("*/*.snapshot"))
    assert sum(row["snapshots"] for row in logs.values()) == len(files)
    assert facts_of(page)["snapshot_bytes"] == sum(file.stat().st_size for file in files)
    assert logs["txn-0"]["producers"] == len(dumped(golden, SCENARIOS, "txn-0")) == 4
    assert (logs["txn-0"]["open"], logs["txn-0"]["expired"]) == (1, 3)
    by_id = {row["producer_id"]: row for row in rows_of(page, "by_id")}
    assert facts_of(page)["producers"] == len(by_id)
    assert sum(row["logs"] for row in by_id.values()) == facts_of(page)["entries"]
    check_picture(section_of(page, "logs"))
    (found,) = rows_of(read_page(path, "/producers?producer=2"), "found")
    assert (found["log"], found["transaction_first_offset"], found["is_expired"]) == ("txn-0", 516, False)
    assert rows_of(read_page(path, "/producers?producer=999999"), "found") == []
    for query in ("producer=x", "producer=-2", "logs.sort=odd", "producer=9223372036854775808"):
        with pytest.raises(ConfigError):
            read_page(path, f"/producers?{query}")


# --- made logs ---


def numbered(at: int, sequence: int, *, epoch: int = 0, count: int = 3, producer_id: int = 5) -> bytes:
    return batch(at, [b"v"] * count, producer_id=producer_id, producer_epoch=epoch, sequence=sequence)


def test_gaps_and_epoch_bumps_have_rows_with_links(tmp_path: Path) -> None:
    batches = [
        numbered(0, 0),
        numbered(3, 3),
        numbered(6, 9),  # a gap: 6 was expected
        numbered(9, 0, epoch=1),
        numbered(12, 5, epoch=2),  # a bump, and a gap: an epoch begins with 0
        plain(15, 2),
        numbered(17, 2**31 - 2, count=2, producer_id=6),
        numbered(19, 0, producer_id=6),  # sequences wrap around
    ]
    write_segment(tmp_path / "t-0", 0, batches)
    page = read_page(tmp_path, "/logs/0/t-0/producers")
    events = [
        (row["offset"], row["previous_epoch"], row["first_sequence"], row["expected_sequence"])
        for row in rows_of(page, "events")
    ]
    assert events == [(6, None, 9, 6), (9, 0, 0, None), (12, 1, 5, 0)]
    rows = rows_of(page, "lanes")
    assert (sum(row["gaps"] for row in rows), sum(row["epoch_bumps"] for row in rows)) == (2, 2)
    table = section_of(page, "events").table
    assert table is not None
    link = table.columns[0].link
    assert link is not None
    position = len(batches[0]) + len(batches[1])
    assert link(table.rows[0]) == f"/logs/0/t-0/segments/0/batches/{position}"
    assert [row["producer_id"] for row in rows] == [-1, *[5] * 5, *[6] * 2]
    check_picture(section_of(page, "lanes"))


def test_a_bump_by_a_marker_begins_a_new_sequence(tmp_path: Path) -> None:
    """The marker already has the next epoch with transaction version 2 (KIP-890)."""

    def bumped(at: int, sequence: int) -> bytes:
        return batch(at, [b"v"], producer_id=5, producer_epoch=1, sequence=sequence, attributes=TRANSACTIONAL)

    value, key = struct.pack(">hi", 0, 0), struct.pack(">hh", 0, 1)
    control = TRANSACTIONAL | CONTROL
    end = batch(1, [value], key=key, producer_id=5, producer_epoch=1, sequence=-1, attributes=control)
    first = batch(0, [b"v"], producer_id=5, sequence=0, attributes=TRANSACTIONAL)
    write_segment(tmp_path / "t-0", 0, [first, end, bumped(2, 0), bumped(3, 8)])
    page = read_page(tmp_path, "/logs/0/t-0/producers")
    events = [(row["offset"], row["batch"], row["expected_sequence"]) for row in rows_of(page, "events")]
    assert events == [(1, "commit", None), (3, "transactional", 1)]
    write_segment(tmp_path / "t-0", 0, [first, end, bumped(2, 4)])
    page = read_page(tmp_path, "/logs/0/t-0/producers")
    assert [row["expected_sequence"] for row in rows_of(page, "events")] == [None, 0]


def test_parts_of_a_long_log(tmp_path: Path) -> None:
    count = 4500
    batches = [numbered(number, number // 90, count=1, producer_id=number % 90) for number in range(count)]
    write_segment(tmp_path / "t-0", 0, batches, interval_bytes=4096)
    seen, url = 0, "/logs/0/t-0/producers"
    query = ""
    for expected in (2000, 2000, 500):
        page = read_page(tmp_path, url + query)
        rows = rows_of(page, "lanes")
        assert len(rows) <= MOST_ITEMS
        assert sum(row["batches"] for row in rows) == expected
        assert sum(row["gaps"] for row in rows) == 0
        check_picture(section_of(page, "lanes"))
        seen += expected
        query = section_of(page, "lanes").links[0].url
    assert seen == count
    later = read_page(tmp_path, f"{url}?start=500")
    assert min(row["first_offset"] for row in rows_of(later, "lanes")) == 500
    assert max(row["lane"] for row in rows_of(later, "lanes")) == 39
    assert facts_of(later)["producers"] == 90


def test_a_producer_leak_is_at_the_top(tmp_path: Path) -> None:
    def entry(producer_id: int, timestamp: int, first: int | None = None) -> ProducerEntry:
        made = ProducerEntry(producer_id=producer_id, producer_epoch=0, last_timestamp=timestamp)
        made.transaction_first_offset = first
        made.batches.append(CachedBatch(0, 1, 0, timestamp))
        return made

    leak = [entry(number, BASE_TIME + number) for number in range(2000)]
    for name, entries in (("leak-0", leak), ("calm-0", [entry(7, BASE_TIME, first=3)])):
        write_segment(tmp_path / name, 0, [plain(0, 5)])
        (tmp_path / name / f"{5:020d}.snapshot").write_bytes(format_snapshot(entries))
    mark_clean(tmp_path)
    page = read_page(tmp_path, "/producers")
    first = rows_of(page, "logs")[0]
    assert (first["log"], first["producers"], first["oldest"], first["newest"]) == (
        "leak-0",
        2000,
        BASE_TIME,
        BASE_TIME + 1999,
    )
    assert first["snapshot_bytes"] == 10 + 46 * 2000
    assert facts_of(page)["producers"] == 2000
    top = rows_of(page, "by_id")[0]
    assert (top["producer_id"], top["logs"], top["open"]) == (7, 2, 1)
    assert [row["log"] for row in rows_of(read_page(tmp_path, "/producers?producer=7"), "found")] == [
        "calm-0",
        "leak-0",
    ]


# --- damage ---


def test_a_damaged_snapshot_is_named_and_the_older_one_counts(golden_copy: GoldenFactory) -> None:
    path = golden_copy(SCENARIOS)
    newest = sorted((path / "txn-0").glob("*.snapshot"))[-1]
    newest.write_bytes(newest.read_bytes()[:-1] + b"\x55")
    page = read_page(path, "/producers")
    row = next(row for row in rows_of(page, "logs") if row["log"] == "txn-0")
    assert str(newest) in row["error"]
    assert row["offset"] < int(newest.stem)
    own = read_page(path, "/logs/0/txn-0/producers")
    assert facts_of(own)["producers"] == 4  # the batches after the older snapshot tell the same


def test_a_damaged_batch_leaves_the_producers_of_the_snapshot(tmp_path: Path) -> None:
    log = write_segment(tmp_path / "t-0", 0, [data(0, producer_id=5), plain(1, 3), data(4, producer_id=6), plain(5, 2)])
    (log.parent / f"{1:020d}.snapshot").write_bytes(format_snapshot([ProducerEntry(producer_id=5, producer_epoch=0)]))
    mark_clean(tmp_path)
    damaged = bytearray(log.read_bytes())
    damaged[len(data(0)) + len(plain(1, 3)) + 70] ^= 1
    log.write_bytes(damaged)
    page = read_page(tmp_path, "/logs/0/t-0/producers")
    assert [row["producer_id"] for row in rows_of(page, "producers")] == [5]
    assert facts_of(page)["offset"] == 1
    notes = " ".join(page.notes)
    assert "The producers are those of the newest snapshot." in notes
    assert "are left out: the CRC of a batch does not match" in notes
    assert sum(row["batches"] for row in rows_of(page, "lanes")) == 3


def test_pages_of_logs_without_producers(golden: GoldenFactory) -> None:
    with asgi_client(golden(NEWEST), wait_seconds=60) as client:
        for log in ("empty-0", "__cluster_metadata-0", "__share_group_state-0"):
            for part in ("producers", "transactions"):
                assert client.ready(f"/logs/0/{log}/{part}").status == 200, (log, part)
        assert client.ready("/logs/0/nothing-0/producers").status == 404
        assert client.ready("/logs/0/txn-0/producers?start=abc").status == 400
        assert client.ready("/logs/0/txn-0/producers?start=99999999999").status == 200
