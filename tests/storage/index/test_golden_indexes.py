"""Every index file of real brokers is read, written again, and compared with its own valid prefix."""

from __future__ import annotations

from pathlib import Path

import pytest

from conftest import GoldenFactory
from golden_sets import EVERYTHING, KRAFT_SETS, SETS
from tidelog.kernel import scan_batches
from tidelog.storage.fs import LOCAL
from tidelog.storage.index import (
    OffsetIndexReader,
    OffsetIndexWriter,
    TimeIndexReader,
    TimeIndexWriter,
    TransactionIndexReader,
    TransactionIndexWriter,
    encode_transactions,
)

DIRECTORIES = [(name, "clean") for name in SETS] + [(name, "unclean") for name in KRAFT_SETS]
MAX_INDEX_BYTES = 16_384


def files(directory: Path, suffix: str) -> list[Path]:
    found = sorted(path for path in directory.rglob(f"*{suffix}") if path.suffix == suffix)
    assert found
    return found


def base_offset(path: Path) -> int:
    return int(path.name[:20])


def is_preallocated(path: Path, set_name: str, kind: str) -> bool:
    """Return True if zeros may follow the entries: after a kill, and in Kafka 4.4's metadata log."""
    return kind == "unclean" or (set_name == EVERYTHING["4.4"] and path.parent.name == "__cluster_metadata-0")


@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_offset_indexes(golden: GoldenFactory, tmp_path: Path, set_name: str, kind: str) -> None:
    for path in files(golden(set_name, kind), ".index"):
        base, data = base_offset(path), path.read_bytes()
        reader = OffsetIndexReader(data, base, path=path)
        reader.sanity_check()
        valid = reader.valid_prefix()
        offsets, positions = (column.tolist() for column in valid.entries())
        writer = OffsetIndexWriter(LOCAL, tmp_path / path.name, base, max_index_bytes=MAX_INDEX_BYTES)
        for offset, position in zip(offsets, positions, strict=True):
            writer.append(offset, position)
        writer.close()
        written = (tmp_path / path.name).read_bytes()
        (tmp_path / path.name).unlink()
        assert written == data[: len(written)]
        assert not any(data[len(written) :])
        assert is_preallocated(path, set_name, kind) or len(written) == len(data)
        log = path.with_suffix(".log")
        if len(valid) and kind == "clean":
            table = scan_batches(log.read_bytes())
            ends = dict(zip(table.position.tolist(), table.last_offset.tolist(), strict=True))
            assert [ends[position] for position in positions] == offsets


@pytest.mark.parametrize(("set_name", "kind"), DIRECTORIES)
def test_time_indexes(golden: GoldenFactory, tmp_path: Path, set_name: str, kind: str) -> None:
    for path in files(golden(set_name, kind), ".timeindex"):
        base, data = base_offset(path), path.read_bytes()
        reader = TimeIndexReader(data, base, path=path)
        valid = reader.valid_prefix()
        valid.sanity_check()
        timestamps, offsets = (column.tolist() for column in valid.entries())
        writer = TimeIndexWriter(LOCAL, tmp_path / path.name, base, max_index_bytes=MAX_INDEX_BYTES)
        for timestamp, offset in zip(timestamps, offsets, strict=True):
            writer.maybe_append(timestamp, offset, skip_full_check=True)
        writer.close()
        written = (tmp_path / path.name).read_bytes()
        (tmp_path / path.name).unlink()
        assert written == data[: len(written)]
        assert not any(data[len(written) :])
        assert is_preallocated(path, set_name, kind) or len(written) == len(data)


@pytest.mark.parametrize("set_name", KRAFT_SETS)
@pytest.mark.parametrize("kind", ["clean", "unclean"])
def test_transaction_indexes(golden: GoldenFactory, tmp_path: Path, set_name: str, kind: str) -> None:
    for path in files(golden(set_name, kind), ".txnindex"):
        data = path.read_bytes()
        reader = TransactionIndexReader(data, base_offset(path), path=path)
        reader.sanity_check()
        assert encode_transactions(reader) == data
        writer = TransactionIndexWriter(LOCAL, tmp_path / path.name, base_offset(path))
        for transaction in reader:
            writer.append(transaction)
        writer.sync()
        assert writer.transactions() == list(reader)
        writer.close()
        assert (tmp_path / path.name).read_bytes() == data
        (tmp_path / path.name).unlink()
