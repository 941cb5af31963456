"""Replaying a real log gives the same bytes as Kafka's snapshots and transaction indexes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import KRAFT_SETS, LARGE_SETS
from tidelog.kernel import BatchTable, scan_batches
from tidelog.storage.index import AbortedTxn, encode_transactions
from tidelog.storage.producer import ProducerState, format_snapshot, parse_snapshot


def partitions(directory: Path) -> Iterator[Path]:
    """Yield the uncompacted partitions whose log begins at 0, so that the producers' history is complete."""
    compacted = ("compacted", "airports", "delays", "__")
    for path in sorted(directory.iterdir()):
        if path.is_dir() and not path.name.startswith(compacted) and (path / f"{0:020}.log").exists():
            yield path


def segments(partition: Path) -> list[Path]:
    return sorted(partition.glob("*.log"))


@pytest.mark.parametrize("set_name", KRAFT_SETS)
@pytest.mark.parametrize("chunk_batches", [10_000, 7, 1])
def test_snapshots_and_transaction_indexes(golden: GoldenFactory, set_name: str, chunk_batches: int) -> None:
    compared = indexes = 0
    for partition in partitions(golden(set_name)):
        state = ProducerState()
        for log in segments(partition):
            snapshot = log.with_suffix(".snapshot")
            if snapshot.exists() and int(log.stem):
                assert state.snapshot() == snapshot.read_bytes(), snapshot
                compared += 1
            aborted = []
            for table, data in chunks(log, chunk_batches):
                for ended in state.replay(data, table):
                    if ended.transaction.aborted:
                        done = ended.transaction
                        entry = (done.producer_id, done.first_offset, done.last_offset, ended.last_stable_offset)
                        aborted.append(AbortedTxn(*entry))
            index = log.with_suffix(".txnindex")
            assert encode_transactions(aborted) == (index.read_bytes() if index.exists() else b""), index
            indexes += index.exists()
    assert compared >= (40 if set_name in LARGE_SETS else 1)
    assert indexes > 0


def chunks(log: Path, batches: int) -> Iterator[tuple[BatchTable, bytes]]:
    data = log.read_bytes()
    table = scan_batches(data)
    for first in range(0, len(table), batches):
        yield table.take(slice(first, first + batches)), data


@pytest.mark.parametrize("set_name", KRAFT_SETS)
@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_every_snapshot_is_written_again_as_it_was(golden: GoldenFactory, set_name: str, kind: str) -> None:
    paths = list(golden(set_name, kind).rglob("*.snapshot"))
    assert paths
    for path in paths:
        assert format_snapshot(parse_snapshot(path.read_bytes(), path=path)) == path.read_bytes()


@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_the_last_snapshot_comes_from_the_one_before_and_the_rest_of_the_log(
    golden: GoldenFactory, set_name: str
) -> None:
    """Replaying drops producers whose records are too old (flights of 2001), as the broker did after its kill."""
    compared = 0
    for partition in partitions(golden(set_name)):
        log = segments(partition)[-1]
        base_offset = int(log.stem)
        data = log.read_bytes()
        table = scan_batches(data)
        if not base_offset or not len(table):
            continue
        last = partition / f"{table.last_offset[-1] + 1:020}.snapshot"
        state = ProducerState()
        now_ms = last.stat().st_mtime_ns // 1_000_000
        state.load_snapshot(log.with_suffix(".snapshot").read_bytes(), base_offset, now_ms=now_ms)
        needed_before = state.needs_snapshot
        assert not needed_before
        with state.loading():
            state.replay(data, table)
        assert state.needs_snapshot
        assert state.snapshot() == last.read_bytes(), last
        compared += 1
    assert compared >= (4 if set_name in LARGE_SETS else 1)
