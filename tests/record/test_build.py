"""Batches that are built, scanned and decoded give the same records; corrupt payloads are always refused."""

from __future__ import annotations

import random
import struct
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.twins import DecoderLimits
from record_columns import columns_from_records
from tidelog.kernel import BatchTable, ColumnDecoder, Stop, crc32c, scan_batches
from tidelog.model import ConfigError, CorruptRecordError, Header, Record, TimestampType, UnsupportedCompressionError
from tidelog.record.arrow import to_arrow
from tidelog.record.attributes import CODECS, batch_attributes
from tidelog.record.build import (
    BatchFields,
    build_batch,
    build_batches,
    build_empty_batch,
    build_end_transaction_batch,
    sequence_after,
)
from tidelog.record.control import EndTransactionMarker
from tidelog.record.decode import decode_chunk, decode_columns, iter_records
from tidelog.testing.record_strategies import MAX_INT64, MIN_INT64, records_of

CREATE = TimestampType.CREATE


def scan(data: Any) -> BatchTable:
    table = scan_batches(data)
    assert table.stop is Stop.END
    assert table.crc_ok.all()
    assert table.header_ok.all()
    return table


def decode(data: Any, **options: Any) -> list[Record]:
    parts = decode_columns(data, scan(data), ColumnDecoder(**options))
    return [record for columns in parts for record in iter_records(columns)]


def numbered(records: Iterable[Record], base_offset: int = 0) -> list[Record]:
    return [record._replace(offset=base_offset + i) for i, record in enumerate(records)]


def sample(count: int) -> list[Record]:
    headers = (Header("h", b"1"), Header("h", None))
    return [
        Record(i, 1_600_000_000_000 + i * 7, CREATE, b"key %d" % i, b"value " * (i % 30), headers[: i % 3])
        for i in range(count)
    ]


@given(
    records=records_of(min_size=1, timestamp_type=CREATE),
    codec=st.sampled_from(sorted(CODECS)),
    base_offset=st.sampled_from([0, 2**31 - 1, 2**40, MAX_INT64 - 100]),
    as_columns=st.booleans(),
)
def test_build_scan_decode(records: list[Record], codec: int, base_offset: int, as_columns: bool) -> None:
    batch = build_batch(columns_from_records(records) if as_columns else records, base_offset=base_offset, codec=codec)
    assert decode(batch) == numbered(records, base_offset)
    table = scan(batch)
    assert table.row(0)[:5] == (
        0,
        base_offset,
        base_offset + len(records) - 1,
        records[0].timestamp,
        max(record.timestamp for record in records),
    )
    assert (table.record_count[0], table.attributes[0], table.producer_id[0]) == (len(records), codec, -1)


@given(
    records=records_of(min_size=1, timestamp_type=CREATE),
    codec=st.sampled_from(sorted(CODECS)),
    as_columns=st.booleans(),
)
def test_offsets_with_gaps_are_kept(records: list[Record], codec: int, as_columns: bool) -> None:
    first = records[0].offset - 1
    batch = build_batch(
        columns_from_records(records) if as_columns else records,
        base_offset=first,
        codec=codec,
        keep_offsets=True,
        last_offset=records[-1].offset + 10,
    )
    assert decode(batch) == records
    assert (scan(batch).base_offset[0], scan(batch).last_offset[0]) == (first, records[-1].offset + 10)
    middle = records[len(records) // 2].offset
    assert decode(batch, start_offset=middle) == [r for r in records if r.offset >= middle]
    assert decode(batch, end_offset=middle) == [r for r in records if r.offset < middle]


def test_header_bytes() -> None:
    batch = build_batch(
        [Record(0, 1_000, CREATE, None, b"a"), Record(0, 900, CREATE, b"k", None)],
        base_offset=77,
        codec="zstd",
        leader_epoch=5,
        producer_id=2**40,
        producer_epoch=3,
        base_sequence=9,
        transactional=True,
    )
    fields = struct.unpack_from(">qiibIhiqqqhii", batch)
    assert fields == (77, len(batch) - 12, 5, 2, crc32c(batch[21:]), 0x14, 1, 1_000, 1_000, 2**40, 3, 9, 2)


def test_uncompressed_bytes_in_full() -> None:
    batch = build_batch([Record(0, 5, CREATE, b"k", None, (Header("ü", None),)), Record(0, 3, CREATE, None, b"")])
    first = bytes([0, 0, 0, 2]) + b"k" + bytes([1, 2, 4]) + "ü".encode() + bytes([1])
    second = bytes([0, 3, 2, 1, 0, 0])
    assert batch[61:] == bytes([2 * len(first)]) + first + bytes([2 * len(second)]) + second


@pytest.mark.parametrize("as_columns", [True, False])
@pytest.mark.parametrize("time", [None, 4_000])
def test_log_append_time(as_columns: bool, time: int | None) -> None:
    records = [Record(0, 1_000, CREATE, None, b"a"), Record(1, 3_000, CREATE, None, b"b")]
    batch = build_batch(
        columns_from_records(records) if as_columns else records,
        timestamp_type=TimestampType.LOG_APPEND,
        append_time_ms=time,
    )
    assert scan(batch).max_timestamp[0] == scan(batch).base_timestamp[0] == (time or 3_000)
    assert [(r.timestamp, r.timestamp_type) for r in decode(batch)] == [(time or 3_000, TimestampType.LOG_APPEND)] * 2


@pytest.mark.parametrize("codec", CODECS)
def test_delete_horizon_takes_the_place_of_the_base_timestamp(codec: int) -> None:
    records = [Record(0, 1_000, CREATE, b"k", None), Record(1, 500, CREATE, b"l", b"v")]
    batch = build_batch(records, codec=codec, delete_horizon_ms=10**13)
    table = scan(batch)
    assert (table.base_timestamp[0], table.max_timestamp[0], table.attributes[0]) == (10**13, 1_000, 0x40 | codec)
    assert decode(batch) == records


def test_timestamps_at_the_ends_of_64_bits() -> None:
    times = [MIN_INT64, MAX_INT64, -1, 0, MAX_INT64, MIN_INT64]
    records = [Record(i, time, CREATE, None, b"") for i, time in enumerate(times)]
    for horizon in (None, MAX_INT64, MIN_INT64):
        assert decode(build_batch(records, delete_horizon_ms=horizon)) == records


def test_empty_batches_as_the_cleaner_leaves_them() -> None:
    fields = BatchFields(codec="gzip", producer_id=9, producer_epoch=1, base_sequence=4, leader_epoch=2)
    empty = build_empty_batch(base_offset=10, last_offset=19, max_timestamp=777, fields=fields)
    row = scan(empty).row(0)
    assert (row.size, row.base_offset, row.last_offset, row.record_count) == (61, 10, 19, 0)
    assert (row.base_timestamp, row.max_timestamp, row.attributes) == (-1, 777, 0)
    assert (row.producer_id, row.producer_epoch, row.base_sequence, row.leader_epoch) == (9, 1, 4, 2)
    assert decode(empty + build_batch(sample(2), base_offset=20, codec="gzip")) == numbered(sample(2), 20)
    with pytest.raises(ValueError, match="below the base offset"):
        build_empty_batch(base_offset=10, last_offset=9, max_timestamp=0, fields=fields)


def test_an_empty_batch_that_still_names_a_codec_is_no_error() -> None:
    empty = build_empty_batch(base_offset=0, last_offset=0, max_timestamp=0, fields=BatchFields())
    assert decode(with_attributes(empty, 4)) == []
    row = scan(empty).row(0)
    assert (row.producer_id, row.producer_epoch, row.base_sequence, row.leader_epoch) == (-1, -1, -1, -1)


def test_attributes_have_no_flags_unless_they_are_set() -> None:
    assert batch_attributes() == 0
    assert batch_attributes(codec=4, transactional=True, control=True, delete_horizon=True) == 0x74


def test_end_of_transaction() -> None:
    marker = EndTransactionMarker(committed=False, coordinator_epoch=3)
    batch = build_end_transaction_batch(marker, base_offset=5, timestamp=8, producer_id=1, producer_epoch=0)
    table = scan(batch)
    assert table.is_control.all()
    assert table.is_transactional.all()
    (record,) = decode(batch)
    assert EndTransactionMarker.parse(record.key, record.value) == marker
    assert (record.offset, record.timestamp, table.base_sequence[0]) == (5, 8, -1)


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("arrow", [True, False])
def test_many_batches(codec: int, arrow: bool) -> None:
    records = sample(5_000)
    columns = columns_from_records(records)
    batches = build_batches(
        pa.Table.from_batches([to_arrow(columns).slice(0, 2_001), to_arrow(columns).slice(2_001)])
        if arrow
        else columns,
        max_batch_bytes=4_000,
        base_offset=2**31 - 100,
        codec=codec,
        producer_id=1,
        producer_epoch=0,
        base_sequence=2**31 - 1_000,
    )
    data = b"".join(batches)
    table = scan(data)
    assert decode(data) == numbered(records, 2**31 - 100)
    assert (table.base_offset[1:] == table.last_offset[:-1] + 1).all()
    sequences = [sequence_after(2**31 - 1_000, int(offset) - (2**31 - 100)) for offset in table.base_offset]
    assert table.base_sequence.tolist() == sequences
    if not codec:
        assert max(map(len, batches)) <= 4_000
        assert sum(map(len, batches)) / len(batches) > 3_500


def test_many_batches_with_gaps_are_those_of_a_compacted_log() -> None:
    records = [record._replace(offset=7 * record.offset + 3) for record in numbered(sample(500), 0)]
    columns = columns_from_records(records)
    batches = build_batches(columns, max_batch_bytes=2_000, base_offset=1, keep_offsets=True)
    table = scan(b"".join(batches))
    assert decode(b"".join(batches)) == records
    assert len(table) > 5
    assert (table.base_offset == [1, *(table.last_offset[:-1] + 1)]).all()
    with pytest.raises(ValueError, match="31 bits"):
        build_batches(columns, base_offset=4, keep_offsets=True)


def test_many_batches_by_count_and_of_nothing() -> None:
    batches = build_batches(columns_from_records(sample(10)), max_batch_records=3)
    assert [int(scan(batch).record_count[0]) for batch in batches] == [3, 3, 3, 1]
    assert build_batches(columns_from_records([])) == []
    large = columns_from_records([Record(0, 0, CREATE, None, bytes(5_000))] * 2)
    assert len(build_batches(large, max_batch_bytes=100)) == 2


def test_sequences_wrap() -> None:
    assert sequence_after(-1, 5) == -1
    assert sequence_after(2**31 - 1, 1) == 0


def test_what_cannot_be_built() -> None:
    one = [Record(5, 0, CREATE, None, b"")]
    with pytest.raises(ValueError, match="needs a record"):
        build_batch([])
    with pytest.raises(ValueError, match="below the last record"):
        build_batch(sample(3), last_offset=1)
    assert scan(build_batch(sample(3), last_offset=2)).last_offset[0] == 2
    with pytest.raises(ValueError, match="31 bits"):
        build_batch(one, base_offset=6, keep_offsets=True)
    with pytest.raises(ValueError, match="never none"):
        build_batch(one, timestamp_type=TimestampType.NONE)
    with pytest.raises(UnsupportedCompressionError, match="brotli"):
        build_batch(one, codec="brotli")
    with pytest.raises(ConfigError):
        build_batch(one, codec="gzip", level=33)


@pytest.mark.parametrize("codec", CODECS)
def test_limits_of_the_decoder_cut_columns_but_no_record(codec: int) -> None:
    records = sample(2_000)
    data = b"".join(build_batches(columns_from_records(records), max_batch_bytes=3_000, codec=codec))
    limits: list[DecoderLimits] = [{"max_rows": 1}, {"max_bytes": 10_000}, {"limit_bytes": 9_000}]
    for options in limits:
        parts = list(decode_columns(data, scan(data), ColumnDecoder(**options)))
        assert len(parts) > 10
        assert [record for columns in parts for record in iter_records(columns)] == records
    with pytest.raises(OverflowError):
        list(decode_columns(data, scan(data), ColumnDecoder(limit_bytes=500)))


@pytest.mark.parametrize("codec", CODECS)
def test_chunks_batch_numbers_and_rows_passed_over(codec: int) -> None:
    batches = build_batches(columns_from_records(sample(300)), max_batch_bytes=2_000, codec=codec)
    data = b"".join(batches)
    table = scan_batches(data, base_position=10**12)
    keep = table.base_offset % 2 == 0
    decoder = ColumnDecoder()
    middle = len(table) // 2
    start = int(table.position[middle]) - 10**12
    for chunk, position, first, last in (
        (data[:start], 10**12, 0, middle),
        (data[start:], 10**12 + start, middle, None),
    ):
        assert decode_chunk(
            chunk, table, decoder, base_position=position, first=first, last=last, batch=1_000, keep=keep
        ) == (last or len(table))
    columns = decoder.finish()
    expected = [
        (offset, 1_000 + row)
        for row in range(len(table))
        if keep[row]
        for offset in range(table.base_offset[row], table.last_offset[row] + 1)
    ]
    assert columns.batch is not None
    assert list(zip(columns.offset.tolist(), columns.batch.tolist(), strict=True)) == expected


def with_attributes(batch: bytes | bytearray, attributes: int) -> bytes:
    return with_crc(batch[:21] + struct.pack(">h", attributes) + batch[23:])


def with_crc(batch: bytes | bytearray) -> bytes:
    return bytes(batch[:17]) + struct.pack(">I", crc32c(batch[21:])) + bytes(batch[21:])


def test_errors_say_where() -> None:
    good = build_batch(sample(3), base_offset=40, codec="gzip")
    bad = with_attributes(build_batch(sample(3), base_offset=43, codec="gzip"), 2)
    decoder = ColumnDecoder()
    with pytest.raises(CorruptRecordError) as caught:
        decode_chunk(good + bad, scan(good + bad), decoder)
    assert (caught.value.position, caught.value.offset) == (len(good), 43)
    assert decoder.stopped_at == 1
    assert [r.offset for r in iter_records(decoder.finish())] == [40, 41, 42]


def test_undefined_codecs_and_wrong_checksums_are_errors() -> None:
    batch = build_batch(sample(3), codec="lz4")
    for codec in (5, 6, 7):
        with pytest.raises(UnsupportedCompressionError) as caught:
            decode(with_attributes(batch, codec))
        assert caught.value.position == 0
    for codec in CODECS:
        spoilt = build_batch(sample(3), codec=codec)
        spoilt[-1] ^= 1
        with pytest.raises(CorruptRecordError):
            list(decode_columns(spoilt, scan_batches(spoilt), ColumnDecoder()))


@pytest.mark.parametrize("codec", CODECS)
def test_flipped_bits_under_a_right_checksum(codec: int) -> None:
    rng = random.Random(codec)
    batch = build_batch(sample(60), codec=codec)
    refused = 0
    for _ in range(3_000):
        spoilt = bytearray(batch)
        for _ in range(rng.randint(1, 4)):
            spoilt[rng.randrange(21, len(spoilt))] ^= 1 << rng.randrange(8)
        data = with_crc(spoilt)
        try:
            for columns in decode_columns(data, scan_batches(data), ColumnDecoder()):
                assert len(list(iter_records(columns))) <= 60
                to_arrow(columns).validate(full=True)
        except (CorruptRecordError, UnsupportedCompressionError):
            refused += 1
    assert refused > 300
