"""Columns and records into batches: the same bytes as hand-made batches, and back through the decoder."""

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.batch_bytes import batch, record
from kernel.twins import COMPILED, PLAIN, Twin, both, columns_value, outcome
from tidelog.kernel import ColumnDecoder, RecordColumns, scan_batches
from tidelog.kernel.columns import Payload
from tidelog.model import Header, Record, TimestampType

Row = tuple[int, int, bytes | None, bytes | None, list[tuple[bytes, bytes | None]]]
ROWS: list[Row] = [
    (10, 1000, b"a", b"one", []),
    (11, 990, None, b"two", []),
    (15, 1500, b"", None, [(b"h", b"x"), (b"n", None)]),
    (16, 1500, b"dd", b"", [(b"", b"")]),
]


def columns_of(rows: Iterable[Row]) -> RecordColumns:
    decoder = ColumnDecoder()
    for offset, timestamp, key, value, headers in rows:
        decoder.add_record(offset=offset, timestamp=timestamp, timestamp_type=0, key=key, value=value, headers=headers)
    return decoder.finish()


def records_of(rows: Iterable[Row], numbers: list[int] | None = None, base: int = 1000) -> list[bytes]:
    return [
        record(n if numbers is None else numbers[n], key, value, headers, timestamp_delta=timestamp - base)
        for n, (_, timestamp, key, value, headers) in enumerate(rows)
    ]


@both
def test_payload(twin: Twin) -> None:
    payload = twin.encode_payload(columns_of(ROWS))
    assert bytes(payload.data) == b"".join(records_of(ROWS))
    assert payload[1:] == (4, 3, 1000, 1500)


@both
def test_payload_with_offsets_and_timestamps_of_the_caller(twin: Twin) -> None:
    payload = twin.encode_payload(columns_of(ROWS), base_offset=8, base_timestamp=500)
    assert bytes(payload.data) == b"".join(records_of(ROWS, [2, 3, 7, 8], base=500))
    assert payload[1:] == (4, 8, 500, 1500)


@both
def test_payload_of_some_rows(twin: Twin) -> None:
    payload = twin.encode_payload(columns_of(ROWS), 1, 3)
    assert bytes(payload.data) == b"".join(records_of(ROWS[1:3], base=990))
    assert payload[1:] == (2, 1, 990, 1500)
    assert twin.encode_payload(columns_of(ROWS), 2, 2) == Payload(bytearray(), 0, -1, -1, -1)
    for first, last in ((-1, 2), (3, 2), (0, 5)):
        with pytest.raises(ValueError, match="of 4"):
            twin.encode_payload(columns_of(ROWS), first, last)


@both
def test_columns_that_are_not_there(twin: Twin) -> None:
    columns = RecordColumns(offset=np.arange(2), timestamp=np.array([5, 6]), timestamp_type=np.zeros(2, np.int8))
    payload = twin.encode_payload(columns)
    assert bytes(payload.data) == record(0, None, None) + record(1, None, None)


@both
def test_batch(twin: Twin) -> None:
    expected = batch(
        records_of(ROWS),
        base_offset=70,
        leader_epoch=3,
        max_timestamp=1500,
        producer_id=5,
        producer_epoch=1,
        base_sequence=9,
        attributes=16,
    )
    fields: dict[str, Any] = {
        "leader_epoch": 3,
        "producer_id": 5,
        "producer_epoch": 1,
        "base_sequence": 9,
        "attributes": 16,
    }
    assert twin.encode_batch(columns_of(ROWS), base_offset=70, **fields) == expected
    payload = twin.encode_payload(columns_of(ROWS))
    sealed = twin.seal_batch(
        payload.data,
        base_offset=70,
        last_offset_delta=payload.last_offset_delta,
        record_count=payload.record_count,
        base_timestamp=payload.base_timestamp,
        max_timestamp=payload.max_timestamp,
        **fields,
    )
    assert sealed == expected


@both
def test_batches(twin: Twin) -> None:
    """Offsets and sequences continue from batch to batch, and sequences wrap to 0."""
    expected = batch(records_of(ROWS[:1]), base_offset=70, base_sequence=2**31 - 1, max_timestamp=1000)
    expected += batch(
        records_of(ROWS[1:], base=990), base_offset=71, base_sequence=0, base_timestamp=990, max_timestamp=1500
    )
    encoder = twin.ColumnEncoder(columns_of(ROWS))
    assert encoder.batches([0, 1, 4], base_offset=70, base_sequence=2**31 - 1) == expected
    assert encoder.batches([0]) == b""
    with pytest.raises(ValueError, match="must ascend"):
        encoder.batches([0, 2, 2])


@both
def test_batches_with_the_offsets_there_are(twin: Twin) -> None:
    data = twin.encode_batch(columns_of(ROWS), keep_offsets=True)
    row = scan_batches(data).row(0)
    assert (row.base_offset, row.last_offset, row.record_count) == (10, 16, 4)
    decoder = ColumnDecoder()
    decoder.add_batches(data, scan_batches(data))
    assert decoder.finish().offset.tolist() == [10, 11, 15, 16]


@both
@pytest.mark.parametrize("offsets", [[5, 5], [6, 5], [5, 2**31 + 5], [4, 5]])
def test_offsets_that_do_not_fit(twin: Twin, offsets: list[int]) -> None:
    columns = columns_of([(offset, 0, None, None, []) for offset in offsets])
    with pytest.raises(ValueError, match="offsets do not ascend"):
        twin.encode_payload(columns, base_offset=5)


@both
def test_records(twin: Twin) -> None:
    records = [
        Record(offset, timestamp, TimestampType.CREATE, key, value, tuple(Header(n.decode(), v) for n, v in headers))
        for offset, timestamp, key, value, headers in ROWS
    ]
    assert twin.encode_records(records) == twin.encode_payload(columns_of(ROWS))
    fields = {"base_offset": 8, "base_timestamp": 500}
    assert twin.encode_records(iter(records), **fields) == twin.encode_payload(columns_of(ROWS), **fields)
    assert twin.encode_records([]) == Payload(bytearray(), 0, -1, -1, -1)
    with pytest.raises(ValueError, match="offsets do not ascend"):
        twin.encode_records(records, base_offset=11)
    with pytest.raises(TypeError, match="must be str"):
        twin.encode_records([records[0]._replace(headers=((b"bytes", None),))])  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        twin.encode_records([records[0]._replace(key="text")])  # type: ignore[arg-type]
    buffers = [records[0]._replace(key=bytearray(b"a"), value=memoryview(b"one"))]  # type: ignore[arg-type]
    assert twin.encode_records(buffers).data == record(0, b"a", b"one")


@both
@pytest.mark.parametrize("max_batch_bytes", [0, 61, 100, 150, 200, 10**6])
@pytest.mark.parametrize("max_records", [1, 3, 1000])
def test_split(twin: Twin, max_batch_bytes: int, max_records: int) -> None:
    columns = columns_of([(n, 1000 + 37 * n, b"k" * (n % 40), b"v" * (n * 7 % 90), []) for n in range(60)])
    encoder = twin.ColumnEncoder(columns)
    boundaries = encoder.batch_boundaries(3, 57, max_batch_bytes=max_batch_bytes, max_records=max_records).tolist()
    assert (boundaries[0], boundaries[-1]) == (3, 57)
    for first, last in pairwise(boundaries):
        assert 0 < last - first <= max_records
        assert last - first == 1 or len(encoder.batches([first, last])) <= max_batch_bytes
        full = last == 57 or last - first == max_records
        assert full or len(encoder.batches([first, last + 1])) > max_batch_bytes
    assert encoder.batch_boundaries(5, 5, max_batch_bytes=100).tolist() == [5]


@both
@pytest.mark.parametrize(
    "broken",
    [
        {"key_offsets": [0, 9, 1, 1, 3]},
        {"key_offsets": [0, 3, 1, 1, 3]},
        {"key_offsets": [-1, 1, 1, 1, 3]},
        {"key_offsets": [0, 1, 1, 1, 4]},
        {"value_offsets": [0, 2**31 - 1, 6, 6, 6]},
        {"header_offsets": [0, 0, 2, 1, 3]},
        {"header_offsets": [0, 0, 0, 2, 4]},
        {"header_offsets": [-5, 0, 0, 2, 3]},
        {"header_key_offsets": [0, 9, 2, 2]},
        {"header_value_offsets": [0, -1, 1, 1]},
    ],
)
def test_columns_that_contradict_themselves(twin: Twin, broken: dict[str, list[int]]) -> None:
    good = columns_of(ROWS)
    fields = {name: getattr(good, name) for name in RecordColumns.__slots__}
    fields |= {name: np.array(values, np.int32) for name, values in broken.items()}
    with pytest.raises(ValueError, match="contradict"):
        twin.encode_payload(RecordColumns(**fields))


def test_columns_of_the_wrong_length_or_type() -> None:
    good = columns_of(ROWS)
    fields = {name: getattr(good, name) for name in RecordColumns.__slots__}
    for name, value in (
        ("timestamp", np.zeros(3, np.int64)),
        ("key_offsets", np.zeros(4, np.int32)),
        ("key_offsets", np.zeros(5, np.int64)),
        ("header_offsets", np.zeros(4, np.int32)),
        ("header_key_offsets", None),
        ("key_validity", np.zeros(0, np.uint8)),
    ):
        with pytest.raises(ValueError):
            COMPILED.encode_payload(RecordColumns(**fields | {name: value}))


byte_strings = st.none() | st.binary(max_size=40)
rows_strategy = st.lists(
    st.tuples(
        st.integers(1, 2**20),
        st.integers(-(2**63), 2**63 - 1),
        byte_strings,
        byte_strings,
        st.lists(st.tuples(st.binary(max_size=10), byte_strings), max_size=3),
    ),
    max_size=30,
)


def with_offsets(rows: list[Row]) -> Iterator[Row]:
    offset = 0
    for step, timestamp, key, value, headers in rows:
        offset += step
        yield (offset, timestamp, key, value, headers)


@given(rows_strategy, st.integers(0, 30), st.integers(0, 30))
def test_twins_encode_alike(rows: list[Row], first: int, last: int) -> None:
    columns = columns_of(with_offsets(rows))
    for options in ({}, {"base_offset": 0}, {"base_timestamp": 0}):
        encode = [partial(twin.encode_payload, columns, first, last, **options) for twin in (COMPILED, PLAIN)]
        assert outcome(encode[0]) == outcome(encode[1])
    if len(rows) > 1:
        boundaries = [
            COMPILED.ColumnEncoder(columns).batch_boundaries(max_batch_bytes=120),
            PLAIN.ColumnEncoder(columns).batch_boundaries(max_batch_bytes=120),
        ]
        assert boundaries[0].tolist() == boundaries[1].tolist()
        assert COMPILED.ColumnEncoder(columns).batches(boundaries[0]) == PLAIN.ColumnEncoder(columns).batches(
            boundaries[0]
        )


@both
@given(rows=rows_strategy)
def test_decoding_undoes_encoding(twin: Twin, rows: list[Row]) -> None:
    columns = columns_of(with_offsets(rows))
    if not len(columns):
        return
    data = twin.encode_batch(columns, keep_offsets=True)
    decoder = twin.ColumnDecoder()
    decoder.add_batches(data, twin.scan_batches(data))
    assert columns_value(decoder.finish()) == columns_value(columns)
