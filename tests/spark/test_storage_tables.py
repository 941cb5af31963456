"""Tables that are read one partition at a time, compared with Kafka's tools on the same directories."""

from __future__ import annotations

import json
import logging
import pickle
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from conftest import GoldenFactory
from golden_sets import FLIGHTS, FORMATS, SCENARIOS, footprint, manifest
from held_directory import held
from log_maker import batch, data, mark_clean, marker, plain, write_checkpoint, write_segment
from spark.in_process import reader_of, rows, rows_of, splits_of
from tidelog.model import (
    CorruptRecordError,
    FileMissingError,
    IndexCorruptError,
    TidelogError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from tidelog.spark.read.pruning import Pruning
from tidelog.spark.read.schema import TABLES
from tidelog.spark.read.split import SMALL_TASK_BYTES
from tidelog.spark.read.table_columns import Mode
from tidelog.spark.read.whole_partition import PARTITION_BYTES
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.directory_state import LOCK_FILE
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.view_producers import read_producers
from tidelog.storage.producer.entry import ProducerEntry
from tidelog.storage.producer.snapshot import format_snapshot

BY_PARTITION = [mode for mode in Mode if mode.is_made_by_partition]
MARKER = ".kafka_cleanshutdown"
INDEX_LINES = {
    "index": re.compile(r"offset: (\d+) position: (\d+)"),
    "timeindex": re.compile(r"timestamp: (\d+) offset: (\d+)"),
    "txnindex": re.compile(
        r"version: 0 producerId: (\d+) firstOffset: (\d+) lastOffset: (\d+) lastStableOffset: (\d+)"
    ),
}
KINDS = {"offset": "index", "time": "timeindex", "transaction": "txnindex"}
FIELDS = {
    "offset": ("offset", "position"),
    "time": ("timestamp", "offset"),
    "transaction": ("producerId", "firstOffset", "lastOffset", "lastStableOffset"),
}
SNAPSHOT_LINE = re.compile(
    r"producerId: (\d+) producerEpoch: (\d+) coordinatorEpoch: (-?\d+) currentTxnFirstOffset: Optional(?:Long)?"
    r"[.\[](\w+)\]? lastTimestamp: (\d+) firstSequence: \S+ lastSequence: (-?\d+) lastOffset: (-?\d+)"
)


def milliseconds(row: dict[str, Any], column: str) -> int | None:
    time = row[column]
    return None if time is None else round(time.timestamp() * 1000)


def everything(log_dir: Path, mode: str, **given: object) -> list[dict[str, Any]]:
    """Read the rows of all topics, including internal ones."""
    topics = {path.name.rpartition("-")[0] for path in log_dir.iterdir() if re.search(r"-\d+$", path.name)}
    return rows(log_dir, subscribe=",".join(sorted(topics)), mode=mode, **given)


def dumped(directory: Path) -> Iterator[tuple[str, int, str, list[str]]]:
    """Yield partition, base offset, kind of file and lines for each file in kafka-dump-log's output."""
    for text in sorted(directory.glob("*.txt")):
        for section in text.read_text().split("Dumping ")[1:]:
            lines = section.splitlines()
            found = re.fullmatch(r"(.+)/(\d{20})\.(\w+)", lines[0])
            if found is not None:
                yield found[1], int(found[2]), found[3], lines[1:]


@pytest.mark.parametrize("set_name", [FLIGHTS, SCENARIOS])
def test_index_entries_are_those_that_kafka_dumps(golden: GoldenFactory, set_name: str) -> None:
    expected: dict[tuple[str, int, str], list[tuple[int, ...]]] = {}
    partitions = set()
    for partition, base, kind, lines in dumped(golden(set_name, "dump-clean")):
        partitions.add(partition)
        if kind in INDEX_LINES:
            matches = [INDEX_LINES[kind].fullmatch(line) for line in lines]
            entries = [tuple(int(part) for part in found.groups()) for found in matches if found is not None]
            if entries:
                expected[partition, base, kind] = entries
    found: dict[tuple[str, int, str], list[tuple[int, ...]]] = {}
    for row in everything(golden(set_name), "index"):
        partition = f"{row['topic']}-{row['partition']}"
        if partition not in partitions:
            continue
        entries = found.setdefault((partition, row["segmentBaseOffset"], KINDS[row["kind"]]), [])
        assert row["entry"] == len(entries)
        row["timestamp"] = milliseconds(row, "timestamp")
        entries.append(tuple(row[name] for name in FIELDS[row["kind"]]))
    assert found == expected
    assert {kind for _, _, kind in found} == set(INDEX_LINES)


@pytest.mark.parametrize("kind", ["clean", "unclean"])
@pytest.mark.parametrize("set_name", [FLIGHTS, SCENARIOS])
def test_producers_are_those_of_kafkas_last_snapshot(golden: GoldenFactory, set_name: str, kind: str) -> None:
    expected: dict[str, list[tuple[object, ...]]] = {}
    newest: dict[str, int] = {}
    for partition, base, file_kind, lines in dumped(golden(set_name, "dump-clean")):
        if file_kind == "snapshot" and base >= newest.get(partition, 0) and "metadata" not in partition:
            newest[partition] = base
            found = [SNAPSHOT_LINE.match(line) for line in lines]
            expected[partition] = [match.groups() for match in found if match is not None]
    known: dict[str, list[tuple[object, ...]]] = {partition: [] for partition in expected}
    for row in everything(golden(set_name, kind), "producers"):
        first = row["transactionStartOffset"]
        fields = (
            row["producerId"],
            row["producerEpoch"],
            -1 if row["coordinatorEpoch"] is None else row["coordinatorEpoch"],
            "empty" if first is None else first,
            milliseconds(row, "lastTimestamp"),
            -1 if row["lastSequence"] is None else row["lastSequence"],
            -1 if row["lastOffset"] is None else row["lastOffset"],
        )
        known.setdefault(f"{row['topic']}-{row['partition']}", []).append(tuple(map(str, fields)))
    if kind == "clean":
        assert {name: sorted(found) for name, found in known.items()} == {
            name: sorted(found) for name, found in expected.items()
        }
    else:  # Kafka took most producers of the flights of 2001 for expired when it loaded them
        assert all(set(known[partition]) >= set(found) for partition, found in expected.items())
    assert any(expected.values())


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_the_transaction_that_a_real_producer_left_open(golden: GoldenFactory, kind: str) -> None:
    (found,) = everything(golden(SCENARIOS, kind), "transactions")
    assert (found["topic"], found["partition"], found["producerId"]) == ("txn", 0, 2)
    assert (found["startOffset"], found["lastOffset"], found["recordCount"]) == (516, 520, 5)
    assert milliseconds(found, "startTimestamp") == milliseconds(found, "lastTimestamp") == 1_795_216_675_766
    assert found["lastStableOffset"] == manifest(SCENARIOS)["txn-0"]["read_committed"]["high"]
    assert found["heldBackOffsets"] == found["logEndOffset"] - found["startOffset"] == 45
    assert (found["transactionalId"], found["state"]) == ("golden-c", "Ongoing")
    assert found["logDir"] == str(golden(SCENARIOS, kind))
    for other in (golden(FLIGHTS), golden(FLIGHTS, "unclean"), golden(FORMATS)):
        assert everything(other, "transactions") == []


@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_groups_are_what_kafka_dumps_last(golden: GoldenFactory, kind: str) -> None:
    line = re.compile(r'^\| offset: (\d+) .* key: (\{"type":"1".*?\}) payload: (.*)$')
    expected: dict[tuple[str, str, int], tuple[object, ...]] = {}
    for path in golden(FLIGHTS, "dump-clean").glob("__consumer_offsets-*.txt"):
        source = int(path.stem.rpartition("-")[2])
        for match in filter(None, map(line.match, path.read_text().splitlines())):
            key, value = json.loads(match[2])["data"], json.loads(match[3])["data"]
            what = (value["offset"], value["metadata"], value["commitTimestamp"], source, int(match[1]))
            expected[key["group"], key["topic"], key["partition"]] = what
    found = rows(golden(FLIGHTS, kind), mode="groups", subscribePattern=".*")
    assert {
        (row["group"], row["topic"], row["partition"]): (
            row["offset"],
            row["metadata"],
            milliseconds(row, "commitTimestamp"),
            row["sourcePartition"],
            row["sourceOffset"],
        )
        for row in found
    } == expected
    assert len(found) == 7


def test_the_subscription_chooses_among_what_groups_read(
    golden: GoldenFactory, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    log_dir = golden(FLIGHTS)
    topics = {row["topic"] for row in rows(log_dir, mode="groups", subscribePattern=".*")}
    assert "flights" in topics
    assert {row["topic"] for row in rows(log_dir, mode="groups", subscribe="flights,elsewhere")} == {"flights"}
    (one,) = {row["partition"] for row in rows(log_dir, mode="groups", assign='{"flights":[1]}')}
    assert one == 1
    write_segment(tmp_path / "t-0", 0, [plain(0)])
    with caplog.at_level(logging.WARNING):
        assert rows(tmp_path, mode="groups", subscribePattern=".*") == []
    assert "No partition of __consumer_offsets" in caplog.text


@pytest.mark.parametrize("mode", BY_PARTITION)
def test_columns(golden: GoldenFactory, mode: Mode) -> None:
    log_dir = golden(SCENARIOS if mode is Mode.TRANSACTIONS else FLIGHTS)
    for reader in (
        reader_of(log_dir, subscribePattern=".*", mode=mode),
        reader_of(log_dir, subscribePattern=".*", mode=mode, columns="topic,logDir,corrupt"),
        reader_of(log_dir, subscribePattern=".*", mode=mode, onCorrupt="report"),
    ):
        schema = reader.options.arrow_schema
        batches = [batch for split in splits_of(reader) for batch in reader.read(split)]
        assert batches
        assert all(batch.schema.equals(schema) for batch in batches)
    assert schema.names == [*TABLES[mode].names, "corrupt"]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write an unclean directory: ``t-0`` with an open transaction after an aborted one, ``u-0`` with plain records."""
    write_segment(tmp_path / "t-0", 0, [data(0, 5), marker(5, committed=False), plain(6, 4)])
    write_segment(tmp_path / "t-0", 10, [data(10, 5, producer_id=8), plain(15, 5)])
    write_segment(tmp_path / "u-0", 0, [plain(0), plain(10), plain(20)])
    return tmp_path


def producers_of(directory: Path) -> list[ProducerEntry]:
    return list(read_producers(LogView(LOCAL, directory)).values())


def tables(root: Path, **given: object) -> dict[str, list[dict[str, Any]]]:
    modes = ("index", "producers", "transactions")
    return {mode: rows(root, subscribe="t,u", mode=mode, **given) for mode in modes}


def test_killed_stopped_and_held_directories_give_the_same_rows(root: Path) -> None:
    write_checkpoint(root, "replication-offset-checkpoint", {"t-0": 20, "u-0": 30})
    for partition, end in (("t-0", 20), ("u-0", 30)):
        (root / partition / f"{end:020d}.snapshot").write_bytes(format_snapshot(producers_of(root / partition)))
    killed = tables(root)
    assert [row["producerId"] for row in killed["producers"]] == [7, 8]
    assert [(row["startOffset"], row["heldBackRecords"]) for row in killed["transactions"]] == [(10, 10)]
    assert killed["transactions"][0]["verdict"] == "suspected"
    kinds = [row["kind"] for row in killed["index"] if row["topic"] == "t"]
    assert kinds.count("offset") == 3
    before = footprint(root)
    with held(root):
        assert tables(root) == killed
    mark_clean(root)
    assert tables(root) == killed
    after = footprint(root)
    assert {name for name in after if after[name] != before.get(name)} <= {".", LOCK_FILE, MARKER}


def test_what_is_not_finished_yet_is_read_as_far_as_it_was_written(root: Path) -> None:
    path = root / "u-0" / f"{0:020d}.index"
    whole = rows(root, subscribe="u", mode="index")
    path.write_bytes(path.read_bytes() + bytes(10 * 1024 * 1024))
    assert rows(root, subscribe="u", mode="index") == whole
    path.write_bytes(path.read_bytes()[: -1024 * 1024] + b"\1\2\3")
    assert rows(root, subscribe="u", mode="index") == whole


def damaged_index(root: Path) -> Path:
    mark_clean(root)
    path = root / "t-0" / f"{0:020d}.index"
    path.write_bytes(path.read_bytes() + b"\0\0\0\1\0\0\0\1")
    return path


def damaged_batch(root: Path) -> Path:
    path = root / "t-0" / f"{0:020d}.log"
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    write_checkpoint(
        root, "recovery-point-offset-checkpoint", {"t-0": 10, "u-0": 0}
    )  # otherwise recovery would truncate it
    return path


@pytest.mark.parametrize(
    ("mode", "harm", "error", "others"),
    [
        ("index", damaged_index, IndexCorruptError, {"t", "u"}),
        ("producers", damaged_batch, CorruptRecordError, set()),
        ("transactions", damaged_batch, CorruptRecordError, set()),
    ],
)
def test_damage(root: Path, mode: str, harm: Any, error: type[TidelogError], others: set[str]) -> None:
    path = harm(root)
    with pytest.raises(error) as raised:
        rows(root, subscribe="t,u", mode=mode)
    assert raised.value.path == str(path)
    rest = rows(root, subscribe="t,u", mode=mode, onCorrupt="skip")
    assert {row["topic"] for row in rest} == others
    found = rows(root, subscribe="t,u", mode=mode, onCorrupt="report")
    (told,) = [row for row in found if row["corrupt"] is not None]
    assert (told["topic"], told["partition"], told["logDir"]) == ("t", 0, str(root))
    assert f"file {path}" in told["corrupt"]
    assert (
        [{name: row[name] for name in rest[0]} for row in found if row is not told] == rest if rest else len(found) == 1
    )


def test_damage_among_the_groups(golden_copy: GoldenFactory) -> None:
    log_dir = golden_copy(FLIGHTS)
    path = next(path for path in sorted(log_dir.glob("__consumer_offsets-*/*.log")) if path.stat().st_size)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    with pytest.raises(CorruptRecordError):
        rows(log_dir, mode="groups", subscribePattern=".*")
    found = rows(log_dir, mode="groups", subscribePattern=".*", onCorrupt="report")
    (told,) = [row for row in found if row["corrupt"] is not None]
    assert told["topic"] == "__consumer_offsets"
    assert str(path) in told["corrupt"]
    assert 0 < len(found) - 1 <= 7  # records before the damage count


def test_keys_that_no_version_knows_are_counted(tmp_path: Path) -> None:
    write_segment(tmp_path / "__consumer_offsets-3", 0, [batch(0, [b"\0\0"], key=b"\0\x63")])
    assert rows(tmp_path, mode="groups") == []
    (told,) = rows(tmp_path, mode="groups", onCorrupt="report")
    assert told["corrupt"].startswith("1 keys or values were not decoded")


@pytest.mark.parametrize("mode", BY_PARTITION)
def test_a_partition_that_is_deleted_meanwhile(root: Path, caplog: pytest.LogCaptureFixture, mode: Mode) -> None:
    name = "__consumer_offsets-0" if mode is Mode.GROUPS else "t-0"
    write_segment(root / "__consumer_offsets-0", 0, [])
    for lenient in (False, True):
        reader = reader_of(root, subscribe="t,u", mode=mode, failOnDataLoss=not lenient)
        splits = splits_of(reader)
        shutil.move(root / name, root / "away")
        if lenient:
            with caplog.at_level(logging.WARNING):
                assert {row["topic"] for row in rows_of(reader, splits)} <= {"u"}
            assert "was deleted since the read was planned" in caplog.text
        else:
            with pytest.raises(FileMissingError):
                rows_of(reader, splits)
        shutil.move(root / "away", root / name)


def test_small_partitions_share_a_task_and_carry_little(tmp_path: Path) -> None:
    count = 200
    for number in range(count):
        (tmp_path / f"t-{number}").mkdir()
    write_checkpoint(tmp_path, "recovery-point-offset-checkpoint", {f"t-{number}": 1 for number in range(count)})
    for mode in ("index", "producers", "transactions"):
        splits = splits_of(reader_of(tmp_path, mode=mode))
        assert len(splits) == -(-count * PARTITION_BYTES // SMALL_TASK_BYTES)
        assert sum(len(split.whole) for split in splits) == count
        assert all(len(pickle.dumps(split)) < 400 * len(split.whole) for split in splits)
        assert all(len(whole.state.recovery_points) == 1 for split in splits for whole in split.whole)
    only = Pruning(partitions=frozenset({7}))
    (split,) = splits_of(reader_of(tmp_path, mode="index", pruning=only))
    assert [whole.partition for whole in split.whole] == [TopicPartition("t", 7)]
    with pytest.raises(UnknownTopicOrPartitionError):
        splits_of(reader_of(tmp_path, mode="index", subscribe="missing"))
