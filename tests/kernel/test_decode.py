"""Batches into columns: every field, projections, ranges, limits, and the state after a corrupt batch."""

import threading
from typing import Any

import numpy as np
import pytest
from typing_extensions import Buffer

from kernel.batch_bytes import batch, message, record, varint
from kernel.twins import COMPILED, Twin, both, columns_value, numbers, parts
from tidelog.kernel import BatchTable, Fault, RecordColumns, scan_batches
from tidelog.model import CorruptRecordError

MANY = [
    record(0, b"a", b"one"),
    record(1, None, b"two", timestamp_delta=-5),
    record(2, b"", None, [(b"h", b"x"), ("ü".encode(), None), (b"", b"")]),
    record(3, b"dd", b"", timestamp_delta=2**40),
]


def decode(twin: Twin, data: Buffer, **options: Any) -> RecordColumns:
    decoder = twin.ColumnDecoder(**options)
    table = scan_batches(data)
    assert decoder.add_batches(data, table) == len(table)
    return decoder.finish()


@both
def test_every_field(twin: Twin) -> None:
    data = batch(MANY, base_offset=100, base_timestamp=5000, base_sequence=2**31 - 2)
    columns = decode(twin, batch([record(0)]) + data, sequences=True)
    assert len(columns) == 5
    assert columns.offset.tolist() == [0, 100, 101, 102, 103]
    assert columns.timestamp.tolist() == [1000, 5000, 4995, 5002, 5000 + 2**40]
    assert columns.timestamp_type.tolist() == [0] * 5
    assert numbers(columns.batch) == [0, 1, 1, 1, 1]
    assert numbers(columns.sequence) == [-1, 2**31 - 2, 2**31 - 1, 0, 1]
    keys = parts(columns.key_offsets, columns.key_data, columns.key_valid)
    assert keys == [b"key", b"a", None, b"", b"dd"]
    values = parts(columns.value_offsets, columns.value_data, columns.value_valid)
    assert values == [b"value", b"one", b"two", None, b""]
    assert (columns.key_null_count, columns.value_null_count, columns.header_value_null_count) == (1, 1, 1)
    assert numbers(columns.header_offsets) == [0, 0, 0, 0, 3, 3]
    names = parts(columns.header_key_offsets, columns.header_key_data, [True] * 3)
    assert names == [b"h", "ü".encode(), b""]
    assert parts(columns.header_value_offsets, columns.header_value_data, columns.header_value_valid) == [
        b"x",
        None,
        b"",
    ]
    assert columns.header_keys_are_utf8
    assert columns.data_bytes == len(b"keyaddvalueonetwohx") + 2


@both
def test_columns_are_what_arrow_takes(twin: Twin) -> None:
    columns = decode(twin, batch([record(n, None if n % 3 else b"k") for n in range(20)]))
    assert columns.key_validity is not None
    assert columns.key_validity.dtype == np.uint8
    assert np.unpackbits(columns.key_validity, bitorder="little")[:20].tolist() == [n % 3 == 0 for n in range(20)]
    assert columns.value_validity is None
    assert columns.value_valid is not None
    assert columns.value_valid.all()
    assert columns.key_offsets is not None
    assert columns.key_offsets.dtype == np.int32


@both
def test_log_append_time_is_every_records_time(twin: Twin) -> None:
    columns = decode(twin, batch(MANY, attributes=8, max_timestamp=42))
    assert columns.timestamp.tolist() == [42] * 4
    assert columns.timestamp_type.tolist() == [1] * 4


@both
def test_a_delete_horizon_is_the_base_of_the_deltas(twin: Twin) -> None:
    """KIP-534: the cleaner puts the horizon into the base timestamp and counts the deltas from it."""
    columns = decode(twin, batch([record(0, timestamp_delta=-700)], attributes=0x40, base_timestamp=9000))
    assert columns.timestamp.tolist() == [8300]


@both
def test_timestamps_wrap_as_java_wraps(twin: Twin) -> None:
    columns = decode(twin, batch([record(0, timestamp_delta=1)], base_timestamp=2**63 - 1))
    assert columns.timestamp.tolist() == [-(2**63)]


@both
@pytest.mark.parametrize("wanted", [{"keys": False}, {"values": False}, {"headers": False}])
def test_projection(twin: Twin, wanted: dict[str, bool]) -> None:
    data = batch(MANY, base_offset=100)
    whole = columns_value(decode(twin, data))
    part = columns_value(decode(twin, data, **wanted))
    (name,) = wanted
    for field, value in part.items():
        if field.startswith(name[:-1]):
            assert value in (None, 0, True), field
        else:
            assert value == whole[field], field


@both
def test_no_columns_but_the_fixed_ones(twin: Twin) -> None:
    columns = decode(twin, batch(MANY), keys=False, values=False, headers=False)
    assert len(columns) == 4
    assert (columns.key_valid, columns.value_valid, columns.header_value_valid) == (None, None, None)
    assert columns.data_bytes == 0


@both
def test_an_empty_decoder(twin: Twin) -> None:
    columns = twin.ColumnDecoder(sequences=True).finish()
    assert len(columns) == 0
    assert numbers(columns.key_offsets) == numbers(columns.value_offsets) == numbers(columns.header_offsets) == [0]
    assert numbers(columns.header_key_offsets) == numbers(columns.header_value_offsets) == [0]
    assert columns.key_data is not None
    assert bytes(columns.key_data) == b""


@both
def test_offset_range(twin: Twin) -> None:
    data = b"".join(batch(MANY, base_offset=offset) for offset in (0, 10, 20))
    columns = decode(twin, data, start_offset=2, end_offset=12)
    assert columns.offset.tolist() == [2, 3, 10, 11]
    assert numbers(columns.header_offsets) == [0, 3, 3, 3, 3]
    assert numbers(columns.batch) == [0, 0, 1, 1]


@both
def test_a_batch_out_of_range_is_not_opened(twin: Twin) -> None:
    data = batch(b"no records", base_offset=50, attributes=2, record_count=1) + batch(MANY)
    decoder = twin.ColumnDecoder(end_offset=50)
    assert decoder.add_batches(data, scan_batches(data)) == 2
    assert decoder.rows == 4


@both
def test_rows_for_others_stop_the_run(twin: Twin) -> None:
    data = batch(MANY) + message(4) + batch(b"zzz", attributes=4, record_count=1) + batch(MANY, base_offset=5)
    table = scan_batches(data)
    decoder = twin.ColumnDecoder()
    assert decoder.add_batches(data, table) == 1
    assert decoder.add_batches(data, table, 1) == 1
    assert decoder.add_batches(data, table, 2) == 2
    assert decoder.add_batches(data, table, 3) == 4
    assert decoder.stopped_at == 4
    assert decoder.rows == 8
    assert numbers(decoder.finish().batch) == [0] * 4 + [3] * 4


@both
def test_keep(twin: Twin) -> None:
    data = batch(MANY) + message(4) + batch(MANY, base_offset=5)
    table = scan_batches(data)
    decoder = twin.ColumnDecoder()
    assert decoder.add_batches(data, table, keep=table.magic == 2, batch=10) == 3
    assert numbers(decoder.finish().batch) == [10] * 4 + [12] * 4
    with pytest.raises(ValueError, match="keep has 2 rows"):
        decoder.add_batches(data, table, keep=np.array([True, False]))


@both
def test_positions_count_from_the_base(twin: Twin) -> None:
    data = batch(MANY) + batch(MANY, base_offset=4)
    table = scan_batches(data, base_position=7000)
    decoder = twin.ColumnDecoder()
    assert decoder.add_batches(data, table, base_position=7000) == 2
    with pytest.raises(ValueError, match="position 7000 does not lie"):
        decoder.add_batches(data, table)
    with pytest.raises(ValueError, match="position 7000 does not lie"):
        decoder.add_batches(data, table, base_position=7001)
    with pytest.raises(ValueError, match="does not lie"):
        decoder.add_batches(data[:-1], table, base_position=7000)


@both
@pytest.mark.parametrize(("first", "last"), [(-1, 1), (1, 0), (0, 2)])
def test_rows_outside_the_table(twin: Twin, first: int, last: int) -> None:
    data = batch(MANY)
    with pytest.raises(ValueError, match="of a table of 1"):
        twin.ColumnDecoder().add_batches(data, scan_batches(data), first, last)


@both
def test_payload(twin: Twin) -> None:
    data = batch(MANY, base_offset=100, base_sequence=7)
    decoder = twin.ColumnDecoder(sequences=True)
    decoder.add_payload(
        data[61:],
        base_offset=100,
        base_timestamp=1000,
        max_timestamp=1003,
        attributes=0,
        record_count=4,
        base_sequence=7,
        batch=3,
    )
    from_payload = columns_value(decoder.finish())
    assert from_payload.pop("batch") == ("<i4", [3] * 4)
    from_batch = columns_value(decode(twin, data, sequences=True))
    del from_batch["batch"]
    assert from_payload == from_batch


@both
def test_one_record_at_a_time(twin: Twin) -> None:
    decoder = twin.ColumnDecoder(end_offset=9)
    decoder.add_record(offset=5, timestamp=-1, timestamp_type=-1, key=None, value=b"v", batch=2)
    decoder.add_record(offset=6, timestamp=7, timestamp_type=1, key=b"k", headers=[(b"n", None)])
    decoder.add_record(offset=9, timestamp=8, timestamp_type=1)
    columns = decoder.finish()
    assert columns.offset.tolist() == [5, 6]
    assert columns.timestamp_type.tolist() == [-1, 1]
    assert parts(columns.key_offsets, columns.key_data, columns.key_valid) == [None, b"k"]
    assert parts(columns.value_offsets, columns.value_data, columns.value_valid) == [b"v", None]
    assert numbers(columns.header_offsets) == [0, 0, 1]


@both
@pytest.mark.parametrize(
    ("text", "is_utf8"),
    [
        (b"plain", True),
        ("é€😀".encode(), True),
        (b"\xc0\x80", False),
        (b"\xe0\x9f\xbf", False),
        (b"\xed\xa0\x80", False),
        (b"\xf0\x8f\xbf\xbf", False),
        (b"\xf4\x90\x80\x80", False),
        (b"\xf5\x80\x80\x80", False),
        (b"\xe2\x82", False),
        (b"\x80", False),
        (b"caf\xe9", False),
    ],
)
def test_header_keys_that_are_no_utf8(twin: Twin, text: bytes, is_utf8: bool) -> None:
    columns = decode(twin, batch([record(0, headers=[(text, b"")])]))
    assert columns.header_keys_are_utf8 is is_utf8
    assert columns.header_key_data is not None
    assert bytes(columns.header_key_data) == text


def raw(*fields: bytes) -> bytes:
    """Make a record from the pieces of its body."""
    body = b"".join(fields)
    return varint(len(body)) + body


ZERO = b"\0"
LONG = b"\xff" * 10 + b"\0"
CORRUPT = [
    (Fault.RECORD_LENGTH, b""),
    (Fault.RECORD_LENGTH, b"\xff" * 7),
    (Fault.RECORD_LENGTH, varint(-1) + bytes(6)),
    (Fault.RECORD_LENGTH, varint(5) + bytes(6)),
    (Fault.RECORD_LENGTH, varint(2**31 - 1) + bytes(6)),
    (Fault.RECORD_LENGTH, varint(-(2**31)) + bytes(6)),
    (Fault.TIMESTAMP, raw(ZERO, LONG)),
    (Fault.TIMESTAMP, raw(ZERO, b"\xff" * 6)),
    (Fault.OFFSET, raw(ZERO, ZERO, b"\xff" * 6)),
    (Fault.OFFSET, raw(ZERO, ZERO, varint(-1), b"\1\1\0")),
    (Fault.OFFSET, raw(ZERO, ZERO, varint(1), b"\1\1\0")),
    (Fault.OFFSET, raw(ZERO, ZERO, varint(2**31 - 1), b"\1\1\0")),
    (Fault.KEY, raw(ZERO, ZERO, ZERO, b"\xff" * 6)),
    (Fault.KEY, raw(ZERO, ZERO, ZERO, varint(4), b"abc")),
    (Fault.KEY, raw(ZERO, ZERO, ZERO, varint(2**31 - 1))),
    (Fault.VALUE, raw(ZERO, ZERO, ZERO, varint(3), b"abc")),
    (Fault.VALUE, raw(ZERO, ZERO, ZERO, b"\1", varint(2**31 - 1))),
    (Fault.VALUE, raw(ZERO, ZERO, ZERO, b"\1", varint(4), b"abc")),
    (Fault.HEADER_COUNT, raw(ZERO, ZERO, ZERO, b"\1", varint(3), b"abc")),
    (Fault.HEADER_COUNT, raw(ZERO, ZERO, ZERO, b"\1", b"\1", varint(-1))),
    (Fault.HEADER_COUNT, raw(ZERO, ZERO, ZERO, b"\1", b"\1", varint(2**31 - 1), b"abc")),
    (Fault.HEADER_COUNT, raw(ZERO, ZERO, ZERO, b"\1", b"\1", varint(2), b"\0\0\0")),
    (Fault.HEADER_KEY, raw(ZERO, ZERO, ZERO, b"\1", b"\1", varint(1), b"\1\0")),
    (Fault.HEADER_KEY, raw(ZERO, ZERO, ZERO, b"\1", b"\1", varint(1), varint(3), b"ab")),
    (Fault.HEADER_VALUE, raw(ZERO, ZERO, ZERO, b"\1", b"\1", varint(1), varint(1), b"a")),
    (Fault.HEADER_VALUE, raw(ZERO, ZERO, ZERO, b"\1", b"\1", varint(1), varint(0), varint(3), b"ab")),
    (Fault.RECORD_END, raw(ZERO, ZERO, ZERO, b"\1", b"\1", ZERO, ZERO)),
    (Fault.BATCH_END, record(0) + b"\0"),
    (Fault.BATCH_END, record(0) + record(0)),
]


@both
@pytest.mark.parametrize(("fault", "records"), CORRUPT)
def test_a_corrupt_batch_is_undone_and_can_be_skipped(twin: Twin, fault: Fault, records: bytes) -> None:
    """The good batches around it stay complete, with their headers and nulls."""
    good = batch(MANY, base_offset=10)
    filler = bytes(max(0, 7 - len(records)))  # fewer bytes than a record needs fail before the record is read
    bad = batch(records + filler if fault is Fault.RECORD_LENGTH else records, base_offset=14, record_count=1)
    data = good + bad + batch(MANY, base_offset=20)
    table = scan_batches(data)
    decoder = twin.ColumnDecoder()
    with pytest.raises(CorruptRecordError) as caught:
        decoder.add_batches(data, table)
    assert caught.value.message.startswith(fault.sentence)
    assert (caught.value.position, caught.value.offset) == (len(good), 14)
    assert decoder.stopped_at == 1
    assert decoder.rows == 4
    assert decoder.add_batches(data, table, decoder.stopped_at + 1) == 3
    assert columns_value(decoder.finish()) == columns_value(without_batch(twin, good, data[-len(good) :]))


def without_batch(twin: Twin, first: bytes, last: bytes) -> RecordColumns:
    decoder = twin.ColumnDecoder()
    decoder.add_batches(first, scan_batches(first))
    decoder.add_batches(last, scan_batches(last), batch=2)
    return decoder.finish()


@both
def test_a_later_record_is_named(twin: Twin) -> None:
    data = batch([record(0, b"x", b"y", [(b"h", None)]), record(1, None), record(2, extra=b"!")])
    with pytest.raises(CorruptRecordError, match="record 2 of 3"):
        twin.ColumnDecoder().add_batches(data, scan_batches(data))


@both
@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        ({"record_count": -1}, Fault.HEADER),
        ({"record_count": 3, "last_offset_delta": 1}, Fault.HEADER),
        ({"last_offset_delta": -1}, Fault.HEADER),
        ({"base_offset": -5}, Fault.HEADER),
        ({"base_offset": 2**63 - 1, "last_offset_delta": 5}, Fault.HEADER),
        ({"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 1}, Fault.RECORD_COUNT),
        ({"record_count": 3, "last_offset_delta": 5}, Fault.RECORD_COUNT),
        ({"crc": 1}, Fault.CRC),
    ],
)
def test_a_corrupt_header(twin: Twin, fields: dict[str, int], fault: Fault) -> None:
    data = batch([record(0)], **fields)
    decoder = twin.ColumnDecoder()
    with pytest.raises(CorruptRecordError) as caught:
        decoder.add_batches(data, scan_batches(data))
    assert caught.value.message == fault.sentence
    assert decoder.rows == 0


@both
def test_counts_that_do_not_match(twin: Twin) -> None:
    fewer = batch([record(0), record(1)], record_count=1)
    with pytest.raises(CorruptRecordError, match="bytes are left"):
        twin.ColumnDecoder().add_batches(fewer, scan_batches(fewer))
    more = batch([record(0), record(1)], record_count=3, last_offset_delta=2)
    with pytest.raises(CorruptRecordError, match="length"):
        twin.ColumnDecoder().add_batches(more, scan_batches(more))


@both
@pytest.mark.parametrize("fields", [{"record_count": 2**31 - 1}, {"record_count": -1}, {"base_offset": -1}])
def test_a_hostile_payload(twin: Twin, fields: dict[str, int]) -> None:
    header = {"base_offset": 0, "base_timestamp": 0, "max_timestamp": 0, "attributes": 0, "record_count": 1} | fields
    decoder = twin.ColumnDecoder()
    with pytest.raises(CorruptRecordError):
        decoder.add_payload(record(0), **header, position=77)
    assert decoder.rows == 0


@both
def test_payload_with_its_last_offset(twin: Twin) -> None:
    header = {"base_offset": 5, "base_timestamp": 0, "max_timestamp": 0, "attributes": 0, "record_count": 1}
    decoder = twin.ColumnDecoder()
    decoder.add_payload(record(3), **header)
    decoder.add_payload(record(3), **header, last_offset=8)
    with pytest.raises(CorruptRecordError) as caught:
        decoder.add_payload(record(3), **header, last_offset=7, position=99)
    assert (caught.value.position, caught.value.offset) == (99, 5)
    assert decoder.rows == 2


@both
def test_offsets_past_31_bits(twin: Twin) -> None:
    columns = decode(twin, batch([record(0), record(2**31 - 1)], base_offset=2**62, last_offset_delta=2**31 - 1))
    assert columns.offset.tolist() == [2**62, 2**62 + 2**31 - 1]


@both
def test_soft_limits(twin: Twin) -> None:
    data = b"".join(batch(MANY, base_offset=4 * n) for n in range(5))
    table = scan_batches(data)
    by_rows = twin.ColumnDecoder(max_rows=5)
    assert (by_rows.add_batches(data, table), by_rows.full) == (2, True)
    assert len(by_rows.finish()) == 8
    assert not by_rows.full
    assert by_rows.add_batches(data, table, 2) == 4
    by_bytes = twin.ColumnDecoder(max_bytes=1)
    assert by_bytes.add_batches(data, table) == 1
    assert by_bytes.full
    with pytest.raises(ValueError, match="at least 1"):
        twin.ColumnDecoder(max_rows=0)


@both
def test_the_hard_limit_of_a_column(twin: Twin) -> None:
    """The small limit stands for 2 GiB, where int32 offsets end."""
    small, large = batch([record(0, b"", bytes(90))]), batch([record(0, b"", bytes(150))], base_offset=1)
    data = small + large + small
    table = scan_batches(data)
    decoder = twin.ColumnDecoder(limit_bytes=220)
    assert decoder.add_batches(data, table) == 1
    assert decoder.full
    assert len(decoder.finish()) == 1
    assert decoder.add_batches(data, table, 1) == 2
    payload = record(0, b"", bytes(90))
    header = {"base_offset": 9, "base_timestamp": 0, "max_timestamp": 0, "attributes": 0, "record_count": 1}
    assert not decoder.fits(len(payload))
    with pytest.raises(OverflowError, match="finish first"):
        decoder.add_payload(payload, **header)
    with pytest.raises(OverflowError, match="finish first"):
        decoder.add_record(offset=3, timestamp=0, timestamp_type=0, value=bytes(90))
    assert len(decoder.finish()) == 1
    decoder.add_payload(payload, **header)
    assert decoder.rows == 1


@both
def test_a_batch_that_passes_the_limit_alone(twin: Twin) -> None:
    data = batch([record(0, b"", bytes(500))], base_offset=3)
    decoder = twin.ColumnDecoder(limit_bytes=100)
    with pytest.raises(OverflowError, match="offset 3 alone"):
        decoder.add_batches(data, scan_batches(data))
    assert not decoder.full


@both
@pytest.mark.parametrize("limit", [0, -1, 2**31])
def test_a_limit_that_int32_cannot_hold(twin: Twin, limit: int) -> None:
    with pytest.raises(ValueError, match="limit_bytes"):
        twin.ColumnDecoder(limit_bytes=limit)


def test_columns_outlive_their_decoder_and_buffer() -> None:
    data = bytearray(batch(MANY, base_offset=100))
    columns = decode(COMPILED, data)
    before = columns_value(columns)
    data[:] = bytes(len(data))
    assert columns_value(columns) == before
    key_data = columns.key_data
    del columns
    assert key_data is not None
    assert bytes(key_data) == b"add"


def test_a_second_thread_is_refused() -> None:
    """The GIL is released while batches are added, so another call on the same decoder must be refused."""
    data = batch([record(n, b"", bytes(1000)) for n in range(20)]) * 3000
    table = scan_batches(data)
    decoder = COMPILED.ColumnDecoder()
    refused = threading.Event()
    done = threading.Event()

    def intrude() -> None:
        while not done.is_set():
            try:
                decoder.finish()
            except RuntimeError:
                refused.set()

    thread = threading.Thread(target=intrude)
    thread.start()
    for _ in range(50):
        try:
            decoder.add_batches(data, table)
        except RuntimeError:
            refused.set()
        if refused.is_set():
            break
    done.set()
    thread.join()
    assert refused.is_set()


@pytest.mark.slow
def test_two_gigabytes_of_values() -> None:
    """The real limit holds four batches of almost 512 MiB in a column, and the fifth does not fit."""
    data = batch([record(0, None, bytes(2**29 - 100))])
    table = BatchTable.concat([scan_batches(data)] * 5)
    decoder = COMPILED.ColumnDecoder()
    assert decoder.add_batches(data, table) == 4
    assert decoder.full
    columns = decoder.finish()
    assert numbers(columns.value_offsets) == [n * (2**29 - 100) for n in range(5)]
    assert columns.value_data is not None
    assert len(columns.value_data) == 4 * (2**29 - 100)
    del columns
    assert decoder.add_batches(data, table, 4) == 5
