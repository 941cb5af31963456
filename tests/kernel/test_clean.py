"""The cleaner's kernels, compiled and plain, with odd logs and odd arguments. tests/record has the other cases."""

import threading
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from kernel.batch_bytes import batch, message, record
from kernel.twins import COMPILED, PLAIN, Twin, both, filtered_value
from tidelog.kernel import (
    BatchRetention,
    CleaningRules,
    FilteredBatches,
    HashedKeys,
    OffsetMap,
    Retention,
    scan_batches,
)
from tidelog.kernel.table import BatchTable
from tidelog.model import CorruptRecordError, InvalidRecordError

SECRET = bytes(16)
RULES = CleaningRules(now_ms=5000, delete_retention_ms=1000)


def everything(table: BatchTable) -> npt.NDArray[np.bool_]:
    return np.ones(len(table), np.bool_)


def data_decisions(count: int) -> BatchRetention:
    """Return the decisions for batches that stay while one of their records stays."""
    none = np.zeros(count, np.bool_)
    retention = np.full(count, Retention.DELETE_EMPTY, np.uint8)
    return BatchRetention(retention=retention, discard=none.copy(), ends_empty_transaction=none)


def put(twin: Twin, offset_map: OffsetMap, data: bytes, *, start_offset: int = 0) -> bool:
    table = scan_batches(data)
    hashed = twin.hash_batch_keys(offset_map, data, table, wanted=everything(table), start_offset=start_offset)
    return twin.put_hashed_keys(offset_map, hashed, start_offset=start_offset)


def filtered(
    twin: Twin, data: bytes, offset_map: OffsetMap, rules: CleaningRules = RULES, **options: Any
) -> FilteredBatches:
    table = scan_batches(data)
    return twin.filter_batches(data, table, data_decisions(len(table)), offset_map, rules, **options)


@both
def test_columns_that_do_not_fit_the_table(twin: Twin) -> None:
    data = batch([record(0)]) + batch([record(0)], base_offset=1)
    table = scan_batches(data)
    offset_map = twin.OffsetMap(2400, key=SECRET)
    wanted = everything(table)
    with pytest.raises(ValueError, match="wanted has 1 rows, the table 2"):
        twin.hash_batch_keys(offset_map, data, table, wanted=wanted[:1], start_offset=0)
    with pytest.raises(ValueError, match="opened has 1 rows, the table 2"):
        twin.hash_batch_keys(offset_map, data, table, wanted=wanted, start_offset=0, opened=[None])
    with pytest.raises(ValueError, match="retention has 1 rows, the table 2"):
        twin.filter_batches(data, table, data_decisions(1), offset_map, RULES)
    with pytest.raises(ValueError, match="opened has 1 rows, the table 2"):
        filtered(twin, data, offset_map, opened=[None])


@both
@pytest.mark.parametrize("base_position", [-1, 1, 2**62, -(2**62)])
def test_a_buffer_that_is_not_the_tables(twin: Twin, base_position: int) -> None:
    data = batch([record(0)])
    table = scan_batches(data)
    offset_map = twin.OffsetMap(2400, key=SECRET)
    with pytest.raises(ValueError, match="does not lie in this buffer"):
        twin.hash_batch_keys(
            offset_map, data, table, wanted=everything(table), start_offset=0, base_position=base_position
        )
    with pytest.raises(ValueError, match="does not lie in this buffer"):
        filtered(twin, data, offset_map, base_position=base_position)


@both
@pytest.mark.parametrize("data", [batch([record(0)], attributes=3), message(0), message(0, magic=0)])
def test_what_stands_for_a_batch_is_asked_for(twin: Twin, data: bytes) -> None:
    offset_map = twin.OffsetMap(2400, key=SECRET)
    for opened in (None, [None]):
        with pytest.raises(ValueError, match="no opened batch was passed"):
            filtered(twin, data, offset_map, opened=opened)
    if data[16] < 2:
        with pytest.raises(ValueError, match="is not a v2 batch"):
            filtered(twin, data, offset_map, opened=[data])


@both
def test_batches_to_compress_come_with_plain_records(twin: Twin) -> None:
    records = [record(0, b"a"), record(1, b"b"), record(2, b"a")]
    data = batch(records[:1]) + batch(records, attributes=3, base_offset=1) + batch(records[:1], base_offset=4)
    offset_map = twin.OffsetMap(2400, key=SECRET)
    offset_map.put(b"a", 3)
    found = filtered(twin, data, offset_map, opened=[None, b"".join(records), None])
    start, end = found.unpacked.tolist()[0]
    assert (start, found.records_read, found.records_kept) == (0, 5, 3)
    whole = bytes(found.data)
    assert whole[start:end] == batch(
        [record(1, b"b", timestamp_delta=0), record(2, b"a", timestamp_delta=1)],
        base_offset=1,
        attributes=3,
        last_offset_delta=2,
        base_timestamp=1001,
        max_timestamp=1002,
    )
    out = bytes(twin.pack_batches(found, [b"squeezed"]))
    assert out[61:69] == b"squeezed"
    assert out[69:] == whole[end:]
    table = scan_batches(out)
    assert (len(table), table.summary.crcs_ok, table.end_position) == (2, True, len(out))


@both
@pytest.mark.parametrize(
    "unpacked",
    [[[0, 60]], [[-1, 80]], [[0, 400]], [[100, 30]], [[0, 70], [69, 140]], [[2**63 - 1, -(2**63)]], [[0, -(2**63)]]],
)
def test_batches_to_compress_that_lie_elsewhere(twin: Twin, unpacked: list[list[int]]) -> None:
    wrong = FilteredBatches(bytes(200), np.array(unpacked, np.int64), 0, 0, 0)
    with pytest.raises(ValueError, match="no batch lies at"):
        twin.pack_batches(wrong, [b""] * len(unpacked))
    with pytest.raises(ValueError, match="payloads for"):
        twin.pack_batches(wrong, [])


@both
def test_a_horizon_below_zero_is_none(twin: Twin) -> None:
    data = batch([record(0, b"a", None)], base_timestamp=1000)
    offset_map = twin.OffsetMap(2400, key=SECRET)
    offset_map.latest_offset = 0
    found = filtered(twin, data, offset_map, RULES._replace(delete_retention_ms=2**63 - 1))
    assert bytes(found.data) == data


@both
def test_numbers_in_a_record_may_grow(twin: Twin) -> None:
    """A delete horizon changes the base of the deltas, which may then need more bytes."""
    records = [record(n, b"%d" % n, None, timestamp_delta=0) for n in range(200)]
    data = batch(records, base_timestamp=2**62, max_timestamp=2**62)
    offset_map = twin.OffsetMap(24 * 400, key=SECRET)
    found = filtered(twin, data, offset_map, CleaningRules(0, 0))
    assert len(bytes(found.data)) > len(data) + 8 * 200
    offset_map.latest_offset = 199
    again = filtered(twin, bytes(found.data), offset_map, CleaningRules(-1, 0))
    assert bytes(again.data) == bytes(found.data)


@both
def test_a_legacy_batch_cannot_stay_empty(twin: Twin) -> None:
    data = message(3)
    table = scan_batches(data)
    decisions = data_decisions(1)
    decisions.retention[:] = Retention.RETAIN_EMPTY
    decisions.discard[:] = True
    with pytest.raises(InvalidRecordError, match="cannot be kept") as caught:
        twin.filter_batches(data, table, decisions, twin.OffsetMap(2400, key=SECRET), RULES)
    assert (caught.value.position, caught.value.offset) == (0, 3)


@both
def test_a_batch_with_a_wrong_checksum_is_refused_unless_it_is_deleted(twin: Twin) -> None:
    data = batch([record(0)], crc=1)
    offset_map = twin.OffsetMap(2400, key=SECRET)
    with pytest.raises(CorruptRecordError, match="checksum"):
        filtered(twin, data, offset_map)
    decisions = data_decisions(1)
    decisions.retention[:] = Retention.DELETE
    assert not bytes(twin.filter_batches(data, scan_batches(data), decisions, offset_map, RULES).data)


def test_keys_of_every_length() -> None:
    """The compiled kernel looks ahead within long batches, the plain one does not, and both agree."""
    records = [record(n, bytes([n % 7]) * (n % 40)) for n in range(1000)]
    data = batch(records) + batch(records, base_offset=1000)
    found = []
    for twin in (COMPILED, PLAIN):
        offset_map = twin.OffsetMap(24 * 500, key=SECRET)
        assert put(twin, offset_map, data, start_offset=17)
        found.append((len(offset_map), offset_map.lookups, filtered_value(filtered(twin, data, offset_map))))
    assert found[0] == found[1]


def test_a_map_full_in_the_middle_of_a_batch() -> None:
    records = [record(n, b"%d" % n) for n in range(100)]
    for slots in range(2, 60):
        maps = []
        for twin in (COMPILED, PLAIN):
            offset_map = twin.OffsetMap(24 * slots, key=SECRET)
            data = batch(records)
            assert not put(twin, offset_map, data)
            maps.append((len(offset_map), offset_map.latest_offset))
        assert maps[0] == maps[1] == (offset_map.max_size, offset_map.max_size - 1)


def test_several_threads_look_up_at_once_and_nobody_puts_meanwhile() -> None:
    records = [record(n % 1000, b"%d" % n) for n in range(1000)]
    data = b"".join(batch(records, base_offset=1000 * number) for number in range(40))
    offset_map = COMPILED.OffsetMap(24 * 5000, key=SECRET)
    assert put(COMPILED, offset_map, data)
    offset_map.put(b"elsewhere", 0)  # the offsets that are noted are not complete any longer
    expected = filtered_value(filtered(COMPILED, data, offset_map))
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(filtered_value(filtered(COMPILED, data, offset_map))))
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4
    assert offset_map.lookups == 40_000 + 1 + 5 * 1000  # the other keys are known to be superseded


def test_no_key_is_looked_up_whose_offset_was_noted() -> None:
    records = [record(n, b"%d" % (n % 700)) for n in range(1000)]
    data = b"".join(batch(records, base_offset=1000 * number) for number in range(3))
    noted, looked_up = (COMPILED.OffsetMap(24 * 5000, key=SECRET) for _ in range(2))
    assert put(COMPILED, noted, data)
    assert put(COMPILED, looked_up, data)
    looked_up.put(b"elsewhere", 0)
    lookups = noted.lookups
    assert filtered_value(filtered(COMPILED, data, noted)) == filtered_value(filtered(COMPILED, data, looked_up))
    assert noted.lookups == lookups < looked_up.lookups


@both
def test_a_key_that_was_put_without_its_offset_being_noted(twin: Twin) -> None:
    data = batch([record(0, b"a"), record(1, b"b"), record(2, b"c")])
    offset_map = twin.OffsetMap(2400, key=SECRET)
    assert put(twin, offset_map, data)
    offset_map.put(b"b", 5)
    assert filtered(twin, data, offset_map).records_kept == 2


@both
def test_data_that_was_skipped(twin: Twin) -> None:
    """The map has not the key at the offset 1, which comes again and therefore goes."""
    keys = [b"a", b"b", b"b"]
    data = b"".join(batch([record(0, key)], base_offset=offset) for offset, key in enumerate(keys))
    table = scan_batches(data)
    offset_map = twin.OffsetMap(2400, key=SECRET)
    wanted = np.array([True, False, True])
    hashed = twin.hash_batch_keys(offset_map, data, table, wanted=wanted, start_offset=0)
    assert twin.put_hashed_keys(offset_map, hashed, start_offset=0)
    assert filtered(twin, data, offset_map).records_kept == 2


@both
def test_keys_without_room_at_offsets_that_are_not_above(twin: Twin) -> None:
    """The offset 3 of a damaged log comes after the offset 5, which has the same key."""
    offset_map = twin.OffsetMap(3 * 24, key=SECRET)
    assert put(twin, offset_map, batch([record(0, b"a"), record(5, b"b")], last_offset_delta=5))
    late = batch([record(0, b"b")], base_offset=3)
    assert not put(twin, offset_map, late)
    assert filtered(twin, late, offset_map).records_kept == 0


@both
def test_an_offset_beyond_the_bits(twin: Twin) -> None:
    """The key at the first offset beyond the bits comes again, and it has no bit."""
    far = 2**27
    data = b"".join(batch([record(0, key)], base_offset=at) for at, key in ((0, b"a"), (far, b"b"), (far + 1, b"b")))
    offset_map = twin.OffsetMap(2400, key=SECRET)
    assert put(twin, offset_map, data)
    assert filtered(twin, data, offset_map).records_kept == 2


@both
def test_keys_that_contradict_themselves(twin: Twin) -> None:
    offset_map = twin.OffsetMap(2400, key=SECRET)
    entries = memoryview(bytes(48))
    for row_ends, last_offsets in (([3], [0]), ([2], [0, 1]), ([2], [])):
        wrong = HashedKeys(entries, np.array(row_ends), np.array(last_offsets, np.int64), skips_data=False)
        with pytest.raises(ValueError, match="2 keys of 1 batches"):
            twin.put_hashed_keys(offset_map, wrong, start_offset=0)
    assert (len(offset_map), offset_map.latest_offset) == (0, -1)
