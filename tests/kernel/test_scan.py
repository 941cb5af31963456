"""Walking batches into the table: every format, every stop, and every contradiction in a header."""

import os
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kernel.batch_bytes import batch, message, record
from kernel.twins import COMPILED, PLAIN, Twin, both, memory_file, table_value
from tidelog.kernel import Stop

ONE = batch([record(0)])
TEN = batch(
    [record(n) for n in range(10)], base_offset=7, leader_epoch=4, producer_id=9, producer_epoch=2, base_sequence=5
)


@both
def test_columns_of_a_v2_batch(twin: Twin) -> None:
    table = twin.scan_batches(TEN, base_position=1000)
    row = table.row(0)
    assert row._asdict() == {
        "position": 1000,
        "size": len(TEN),
        "base_offset": 7,
        "last_offset": 16,
        "base_timestamp": 1000,
        "max_timestamp": 1009,
        "producer_id": 9,
        "record_count": 10,
        "leader_epoch": 4,
        "base_sequence": 5,
        "crc": int.from_bytes(TEN[17:21], "big"),
        "producer_epoch": 2,
        "attributes": 0,
        "magic": 2,
        "crc_ok": True,
        "header_ok": True,
    }
    assert (table.stop, table.end_position, table.partial_size) == (Stop.END, 1000 + len(TEN), 0)


@both
@pytest.mark.parametrize("magic", [0, 1])
def test_columns_of_a_legacy_message(twin: Twin, magic: int) -> None:
    data = message(12, magic=magic, timestamp=77)
    row = twin.scan_batches(data).row(0)
    assert row.magic == magic
    assert (row.base_offset, row.last_offset, row.record_count) == (12, 12, 1)
    assert (row.base_timestamp, row.max_timestamp) == ((77, 77) if magic else (-1, -1))
    assert (row.leader_epoch, row.producer_id, row.producer_epoch, row.base_sequence) == (-1, -1, -1, -1)
    assert row.crc_ok
    assert row.header_ok


@both
def test_a_compressed_legacy_message_has_an_unknown_count(twin: Twin) -> None:
    assert twin.scan_batches(message(12, attributes=1)).row(0).record_count == -1


@both
def test_formats_may_follow_each_other(twin: Twin) -> None:
    data = message(1, magic=0) + message(2) + TEN + ONE
    table = twin.scan_batches(data)
    assert table.magic.tolist() == [0, 1, 2, 2]
    assert table.size.sum() == len(data) == table.end_position


@both
def test_start_and_end(twin: Twin) -> None:
    data = ONE + TEN + ONE
    table = twin.scan_batches(data, len(ONE), len(ONE) + len(TEN), base_position=50)
    assert table.position.tolist() == [50 + len(ONE)]
    assert table.end_position == 50 + len(ONE) + len(TEN)


@both
@pytest.mark.parametrize(("start", "end"), [(-1, None), (5, 4), (0, 10**6), (10**6, None)])
def test_start_and_end_outside_the_buffer(twin: Twin, start: int, end: int | None) -> None:
    with pytest.raises(ValueError, match="cannot scan"):
        twin.scan_batches(TEN, start, end)


@both
@pytest.mark.parametrize("cut", [*range(1, 18), 40, 61, len(TEN) - 1])
def test_a_cut_batch_is_partial(twin: Twin, cut: int) -> None:
    table = twin.scan_batches(ONE + TEN[:cut])
    assert len(table) == 1
    assert (table.stop, table.end_position) == (Stop.PARTIAL, len(ONE))
    assert table.partial_size == (len(TEN) if cut > 17 else 0)


@both
@pytest.mark.parametrize(
    ("tail", "stop"),
    [
        (batch([record(0)], length=13), Stop.BAD_SIZE),
        (batch([record(0)], length=0), Stop.BAD_SIZE),
        (batch([record(0)], length=-1), Stop.BAD_SIZE),
        (batch([record(0)], length=-(2**31)), Stop.BAD_SIZE),
        (batch([record(0)], length=48), Stop.BAD_SIZE),
        (message(0, length=21), Stop.BAD_SIZE),
        (batch([record(0)], length=2**31 - 1), Stop.PARTIAL),
        (batch([record(0)], magic=3), Stop.BAD_MAGIC),
        (batch([record(0)], magic=127), Stop.BAD_MAGIC),
        (batch([record(0)], magic=-1), Stop.BAD_MAGIC),
        (bytes(100), Stop.BAD_SIZE),
    ],
)
def test_bad_bytes_stop_the_walk(twin: Twin, tail: bytes, stop: Stop) -> None:
    table = twin.scan_batches(TEN + tail)
    assert (len(table), table.stop, table.end_position) == (1, stop, len(TEN))


@both
def test_a_wrong_checksum_is_a_row(twin: Twin) -> None:
    data = bytearray(TEN + message(3))
    data[len(TEN) - 1] ^= 1
    data[-1] ^= 1
    table = twin.scan_batches(data)
    assert table.crc_ok.tolist() == [False, False]
    assert table.stop is Stop.END
    unchecked = twin.scan_batches(data, verify_crc=False)
    assert unchecked.crc_ok.tolist() == [True, True]
    assert not unchecked.crc_verified


@both
@pytest.mark.parametrize(
    "fields",
    [
        {"record_count": -1},
        {"record_count": -(2**31)},
        {"record_count": 2**31 - 1, "last_offset_delta": 2**31 - 1},
        {"record_count": 2, "last_offset_delta": 0},
        {"last_offset_delta": -1},
        {"base_offset": -1},
        {"base_offset": 2**63 - 1, "last_offset_delta": 1},
        {"record_count": 3, "last_offset_delta": 2},
    ],
)
def test_headers_that_contradict_themselves(twin: Twin, fields: dict[str, int]) -> None:
    """The last header claims three records, more than its bytes can hold."""
    table = twin.scan_batches(batch([record(0, b"", b"")], **fields))
    assert table.crc_ok.tolist() == [True]
    assert table.header_ok.tolist() == [False]


@both
def test_headers_that_are_unusual_but_hold(twin: Twin) -> None:
    cleaned = batch(b"", last_offset_delta=500)
    far = batch([record(0)], base_offset=2**63 - 1 - 2**31, last_offset_delta=2**31 - 1)
    compressed = batch(b"\0", attributes=4, record_count=100, last_offset_delta=99)
    assert twin.scan_batches(cleaned + far + compressed).header_ok.all()


@both
def test_flags(twin: Twin) -> None:
    data = b"".join(batch([record(0)], attributes=bits) for bits in (0, 3, 8, 0x10, 0x20, 0x40)) + message(
        0, attributes=0x78
    )
    table = twin.scan_batches(data)
    assert table.codec.tolist() == [0, 3, 0, 0, 0, 0, 0]
    assert table.is_log_append.tolist() == [False, False, True, False, False, False, True]
    assert table.is_transactional.tolist() == [False, False, False, True, False, False, False]
    assert table.is_control.tolist() == [False, False, False, False, True, False, False]
    assert table.has_delete_horizon.tolist() == [False, False, False, False, False, True, False]


@both
@pytest.mark.parametrize("count", [0, 1, 2, 17, 1000])
def test_the_table_grows(twin: Twin, count: int) -> None:
    """The first batch is the largest, so the first guess of the row count is too small."""
    data = batch([record(n) for n in range(50)]) + ONE * count
    table = twin.scan_batches(data)
    assert len(table) == count + 1
    assert table.end_position == len(data)
    assert table.size.tolist() == [len(data) - count * len(ONE)] + [len(ONE)] * count


@both
def test_nothing(twin: Twin) -> None:
    table = twin.scan_batches(b"", base_position=9)
    assert table_value(table)[:5] == ([], 9, Stop.END, 0, True)
    assert table.position.tolist() == []


@both
def test_a_position_past_four_gigabytes(twin: Twin) -> None:
    table = twin.scan_batches(ONE, base_position=2**40)
    assert table.position.tolist() == [2**40]
    assert table.end_position == 2**40 + len(ONE)


# --- several buffers ---

PIECES = st.one_of(
    st.integers(0, 40).map(lambda count: batch([record(n, value=b"v" * 40) for n in range(count)])),
    st.sampled_from([message(1, magic=0), message(2), bytes(70), ONE[:20], TEN[:-1], ONE, TEN]),
)


@given(
    data=st.lists(PIECES, max_size=40).map(b"".join),
    sizes=st.lists(st.integers(1, 6000), max_size=60),
    expected=st.integers(0, 100_000),
    verifies=st.booleans(),
)
def test_a_scan_of_several_buffers_is_one_of_their_bytes(
    data: bytes, sizes: list[int], expected: int, verifies: bool
) -> None:
    for twin in (COMPILED, PLAIN):
        scan = twin.BatchScan(7, expected_bytes=expected, verify_crc=verifies)
        for size in (*sizes, len(data)):
            begin = scan.end_position - 7
            if scan.add(data[begin : begin + size]) not in (Stop.END, Stop.PARTIAL):
                break
        whole = twin.scan_batches(data, base_position=7, verify_crc=verifies)
        assert table_value(scan.table()) == table_value(whole)
        assert scan.partial_size == whole.partial_size


@both
def test_a_scan_goes_on_after_its_table(twin: Twin) -> None:
    scan = twin.BatchScan()
    assert scan.add(TEN) is Stop.END
    before = scan.table()
    assert scan.add(ONE) is Stop.END
    assert (len(before), len(scan.table())) == (1, 2)
    assert table_value(before) == table_value(twin.scan_batches(TEN))


# --- headers of files ---

pieces = st.one_of(
    st.integers(0, 40).map(lambda count: batch([record(n, value=b"v" * 40) for n in range(count)])),
    st.integers(3900, 4200).map(lambda size: batch([record(0, value=bytes(size))])),
    st.sampled_from([message(1, magic=0), message(2), bytes(70), ONE[:20], TEN[:-1]]),
)


@given(data=st.lists(pieces, max_size=40).map(b"".join), start=st.integers(0, 100), missing=st.integers(0, 5000))
@example(data=batch([record(0, value=bytes(10_000))]) * 3, start=0, missing=0)
@example(data=batch([record(0, value=bytes(3_990))]) * 3, start=0, missing=0)  # a header across the end of the window
def test_headers_of_a_file(data: bytes, start: int, missing: int) -> None:
    with memory_file(data) as descriptor:
        end = len(data) - min(missing, len(data))
        start = min(start, end)
        tables = [twin.scan_headers(descriptor, start, end) for twin in (COMPILED, PLAIN)]
        assert table_value(tables[0]) == table_value(tables[1])


@both
def test_headers_of_a_file_that_has_become_shorter(twin: Twin) -> None:
    with memory_file(TEN + TEN[:30]) as descriptor:
        table = twin.scan_headers(descriptor, 0, 3 * len(TEN))
    assert (len(table), table.stop, table.end_position) == (1, Stop.PARTIAL, len(TEN))


@both
def test_headers_without_a_file(twin: Twin, tmp_path: Path) -> None:
    descriptor = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(ValueError, match=r"cannot scan \[5:4\] of a file"):
        twin.scan_headers(descriptor, 5, 4)
    with pytest.raises(IsADirectoryError):
        twin.scan_headers(descriptor, 0, 100)
    os.close(descriptor)
