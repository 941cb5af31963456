"""The first records of a batch as a batch: every field, all codecs, emptied batches, wrappers of v0 and v1."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legacy_build import MessageFields, build_set
from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import Header, Record, TimestampType
from tidelog.record.build import BatchFields, build_batch, build_empty_batch
from tidelog.record.decode import decode_columns, iter_records
from tidelog.record.truncated_batch import truncate_batch

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def found(batch: bytes) -> list[Record]:
    return [
        record
        for columns in decode_columns(batch, scan_batches(batch), ColumnDecoder())
        for record in iter_records(columns)
    ]


def records(*offsets: int, times: tuple[int, ...] | None = None) -> list[Record]:
    times = times or tuple(1000 - 10 * number for number in range(len(offsets)))
    return [
        Record(offset, time, TimestampType.CREATE, b"k", b"v%d" % offset, (Header("h", b"1"),))
        for offset, time in zip(offsets, times, strict=True)
    ]


@given(
    st.lists(st.integers(100, 130), min_size=1, unique=True).map(sorted),
    st.integers(100, 131),
    st.sampled_from(CODECS),
    st.booleans(),
    st.booleans(),
)
def test_records_below_the_end_stay(
    offsets: list[int], end: int, codec: str, has_producer: bool, append_time: bool
) -> None:
    fields: dict[str, Any] = {"producer_id": 5, "producer_epoch": 2, "base_sequence": 7, "transactional": True}
    kind = TimestampType.LOG_APPEND if append_time else TimestampType.CREATE
    batch = build_batch(
        records(*offsets),
        base_offset=99,
        keep_offsets=True,
        last_offset=131,
        codec=codec,
        leader_epoch=3,
        timestamp_type=kind,
        **(fields if has_producer else {}),
    )
    truncated = truncate_batch(batch, end)
    kept = [record for record in found(bytes(batch)) if record.offset < end]
    if not kept and not has_producer:
        assert truncated == b""
        return
    before, row = scan_batches(batch).row(0), scan_batches(truncated).row(0)
    assert row.crc_ok
    assert (row.base_offset, row.last_offset, row.record_count) == (99, end - 1, len(kept))
    assert found(truncated) == kept
    assert (row.producer_id, row.producer_epoch, row.base_sequence) == (
        before.producer_id,
        before.producer_epoch,
        before.base_sequence,
    )
    assert row.leader_epoch == 3
    largest = max((record.timestamp for record in kept), default=-1)
    assert row.max_timestamp == largest
    assert row.attributes & ~7 == before.attributes & ~7
    assert row.attributes & 7 == (before.attributes & 7 if kept else 0)


def test_the_delete_horizon_stays() -> None:
    batch = build_batch(records(0, 1, 2), delete_horizon_ms=500)
    truncated = truncate_batch(batch, 2)
    assert found(truncated) == found(bytes(batch))[:2]
    assert scan_batches(truncated).has_delete_horizon[0]


def test_an_emptied_batch_of_a_producer_stays_a_header() -> None:
    fields = BatchFields(producer_id=5, producer_epoch=1, base_sequence=4)
    batch = build_empty_batch(base_offset=10, last_offset=19, max_timestamp=77, fields=fields)
    producer: dict[str, Any] = {"producer_id": 5, "producer_epoch": 1, "base_sequence": 4}
    filled = build_batch(records(18), base_offset=10, keep_offsets=True, codec="zstd", **producer)
    for given_batch in (batch, filled):
        row = scan_batches(truncate_batch(given_batch, 15)).row(0)
        assert (row.base_offset, row.last_offset, row.record_count, row.max_timestamp) == (10, 14, 0, -1)
        assert (row.producer_id, row.base_sequence, row.attributes) == (5, 4, 0)


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [1, 2, 3])
def test_a_wrapper_becomes_a_v2_batch_of_its_first_messages(magic: int, codec: int) -> None:
    messages = [MessageFields(1000 - number, b"k", b"v%d" % number) for number in range(5)]
    wrapper = build_set(messages, magic=magic, base_offset=40, codec=codec)
    truncated = truncate_batch(wrapper, 43)
    row = scan_batches(truncated).row(0)
    assert (row.magic, row.base_offset, row.last_offset, row.attributes & 7) == (2, 40, 42, codec)
    kept = found(truncated)
    assert [(one.offset, one.value) for one in kept] == [(40, b"v0"), (41, b"v1"), (42, b"v2")]
    assert [one.timestamp for one in kept] == ([1000, 999, 998] if magic else [-1, -1, -1])
    assert truncate_batch(wrapper, 40) == b""
