"""The batches after a clean: a case for each row of the tables in ``clean_batches``."""

import dataclasses
from typing import Any

import numpy as np
import pytest

from legacy_build import MessageFields, build_set
from record.cleaning.dirty_batches import CODECS, NOW, RULES, batch_of, clean, fates_of, map_of, record, records_of
from tidelog.kernel import OffsetMap, scan_batches
from tidelog.model import CorruptRecordError, InvalidRecordError, TimestampType
from tidelog.record.build import build_end_transaction_batch
from tidelog.record.cleaning import Retention, clean_batches, hash_keys, put_keys
from tidelog.record.control import EndTransactionMarker


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_loses_nothing_is_copied(codec: str) -> None:
    data = batch_of(record(3, b"a"), record(7, b"b"), base_offset=2, last_offset=9, codec=codec, leader_epoch=4)
    cleaned = clean(data)
    assert bytes(cleaned.data) == data
    assert dataclasses.astuple(cleaned.stats) == (2, 2, 0, len(data), len(data))


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_loses_records_keeps_its_fields(codec: str) -> None:
    fields: dict[str, Any] = {
        "codec": codec,
        "leader_epoch": 4,
        "producer_id": 8,
        "producer_epoch": 1,
        "base_sequence": 17,
    }
    data = batch_of(record(10, b"a"), record(11, b"b"), record(12, b"c"), record(13, b"b"), **fields)
    data += batch_of(record(14, b"c"), record(15, b"a"), **fields)
    cleaned = clean(data)
    first = batch_of(record(13, b"b"), base_offset=10, **fields)
    assert bytes(cleaned.data) == first + data[-(len(data) - scan_batches(data).row(1).position) :]
    assert [row.base_sequence for row in cleaned.table.rows()] == [17, 17]
    assert (cleaned.stats.records_read, cleaned.stats.records_kept) == (6, 3)


def test_timestamps_of_the_log_stay() -> None:
    data = batch_of(
        record(0, b"a"), record(1, b"a"), record(2, b"b"), timestamp_type=TimestampType.LOG_APPEND, append_time_ms=5555
    )
    cleaned = clean(data)
    assert [(found.offset, found.timestamp, found.timestamp_type) for found in records_of(cleaned)] == [
        (1, 5555, TimestampType.LOG_APPEND),
        (2, 5555, TimestampType.LOG_APPEND),
    ]
    assert cleaned.table.row(0).base_timestamp == 5555


def test_a_tombstone_gets_a_delete_horizon_and_goes_when_it_has_passed() -> None:
    data = batch_of(record(0, b"a"), record(1, b"b", None), record(2, b"c"))
    first = clean(data)
    row = first.table.row(0)
    assert (row.attributes, row.base_timestamp, row.max_timestamp) == (0x40, NOW + 1000, 1002)
    assert [(found.offset, found.timestamp, found.value) for found in records_of(first)] == [
        (0, 1000, b"value"),
        (1, 1001, None),
        (2, 1002, b"value"),
    ]
    soon = clean(first.data, rules=RULES._replace(now_ms=NOW + 999))
    assert bytes(soon.data) == bytes(first.data)
    later = clean(first.data, rules=RULES._replace(now_ms=NOW + 1000))
    assert [found.offset for found in records_of(later)] == [0, 2]
    assert later.table.row(0).base_timestamp == NOW + 1000


def test_a_record_without_a_key_goes_and_is_counted() -> None:
    data = batch_of(record(0, None), record(1, b"a"))
    cleaned = clean(data)
    assert [found.offset for found in records_of(cleaned)] == [1]
    assert cleaned.stats.invalid_records == 1


def test_what_lies_above_the_map_stays() -> None:
    data = batch_of(record(0, b"a"), record(1, b"a"), record(2, None), record(3, b"a", None))
    offset_map = OffsetMap(2400, key=bytes(16))
    offset_map.put(b"a", 1)
    cleaned = clean(data, offset_map=offset_map)
    assert [found.offset for found in records_of(cleaned)] == [1, 2, 3]


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_loses_everything(codec: str) -> None:
    data = batch_of(
        record(5, b"a"), record(8, b"b"), base_offset=4, last_offset=9, producer_id=3, producer_epoch=2,
        base_sequence=6, codec=codec, leader_epoch=1, transactional=True,
    )  # fmt: skip
    offset_map = map_of(data + batch_of(record(10, b"a"), record(11, b"b")))
    assert bytes(clean(data, offset_map=offset_map).data) == b""
    kept = clean(data, offset_map=offset_map, retention=Retention.RETAIN_EMPTY)
    row = kept.table.row(0)
    assert (row.size, row.record_count, row.base_offset, row.last_offset) == (61, 0, 4, 9)
    assert (row.attributes, row.base_timestamp, row.max_timestamp, row.base_sequence) == (0x10, -1, 1008, 6)
    assert (row.producer_id, row.producer_epoch, row.leader_epoch) == (3, 2, 1)
    assert scan_batches(kept.data).summary.crcs_ok
    again = clean(kept.data, retention=Retention.RETAIN_EMPTY)
    assert bytes(again.data) == bytes(kept.data)
    assert bytes(clean(kept.data).data) == b""


@pytest.mark.parametrize("codec", CODECS)
def test_discarded_batches_are_not_opened(codec: str) -> None:
    data = batch_of(record(0, b"a"), record(1, b"b"), codec=codec)
    assert bytes(clean(data, discard=True).data) == b""
    deleted = clean(data, retention=Retention.DELETE)
    assert dataclasses.astuple(deleted.stats) == (0, 0, 0, len(data), 0)
    kept = clean(data, retention=Retention.RETAIN_EMPTY, discard=True)
    assert kept.table.row(0).record_count == 0
    assert (kept.stats.records_read, kept.stats.records_kept) == (2, 0)


def test_markers_stay_until_their_horizon() -> None:
    marker = EndTransactionMarker(committed=True, coordinator_epoch=3)
    data = bytes(build_end_transaction_batch(marker, base_offset=7, timestamp=2000, producer_id=1, producer_epoch=0))
    offset_map = OffsetMap(2400, key=bytes(16))
    offset_map.latest_offset = 100
    assert bytes(clean(data, offset_map=offset_map).data) == data
    marked = clean(data, offset_map=offset_map, ends_empty_transaction=True)
    row = marked.table.row(0)
    assert (row.attributes, row.base_timestamp, row.max_timestamp) == (0x70, NOW + 1000, 2000)
    assert [found.timestamp for found in records_of(marked)] == [2000]
    assert bytes(clean(marked.data, offset_map=offset_map, ends_empty_transaction=True).data) == bytes(marked.data)


@pytest.mark.parametrize(("magic", "codec"), [(0, 0), (0, 1), (0, 3), (1, 0), (1, 1), (1, 2), (1, 3)])
def test_legacy_messages_become_v2_batches(magic: int, codec: int) -> None:
    messages = [MessageFields(2000 + n, key, value) for n, (key, value) in enumerate(
        [(b"a", b"1"), (b"b", b"2"), (b"a", b"3"), (None, b"4"), (b"c", None)]
    )]  # fmt: skip
    data = bytes(build_set(messages, magic=magic, base_offset=40, codec=codec))
    cleaned = clean(data)
    expected = [(41, b"b", b"2"), (42, b"a", b"3"), (44, b"c", None)]
    found = records_of(cleaned)
    assert [(one.offset, one.key, one.value) for one in found] == expected
    assert [one.timestamp for one in found] == ([-1] * 3 if magic == 0 else [2001, 2002, 2004])
    assert set(cleaned.table.magic.tolist()) == {2}
    assert set(cleaned.table.codec.tolist()) == {codec}
    last = cleaned.table.row(-1)
    assert (last.base_offset, last.last_offset) == ((41, 44) if codec else (44, 44))
    assert (last.attributes & ~7, last.base_timestamp) == (0x40, NOW + 1000)
    assert last.max_timestamp == (2004 if magic else -1)
    gone = clean(data, rules=RULES._replace(retain_legacy_deletes=False))
    assert [one.offset for one in records_of(gone)] == [41, 42]
    with pytest.raises(InvalidRecordError, match="cannot be kept"):
        clean(data, retention=Retention.RETAIN_EMPTY, discard=True)


def test_legacy_messages_with_the_time_of_the_log() -> None:
    messages = [MessageFields(2000, b"a", b"1"), MessageFields(2001, b"b", b"2"), MessageFields(2002, b"a", b"3")]
    data = bytes(build_set(messages, magic=1, base_offset=5, codec=3, append_time_ms=9999))
    cleaned = clean(data)
    row = cleaned.table.row(0)
    assert (row.attributes, row.base_offset, row.last_offset, row.max_timestamp) == (0x0B, 6, 7, 9999)
    assert [(one.offset, one.timestamp) for one in records_of(cleaned)] == [(6, 9999), (7, 9999)]


def test_a_chunk_from_the_middle_of_a_file() -> None:
    data = batch_of(record(0, b"a")) + batch_of(record(1, b"a"), record(2, b"b"))
    table = scan_batches(data, base_position=5000)
    offset_map = OffsetMap(2400, key=bytes(16))
    hashed = hash_keys(offset_map, data, table, wanted=np.ones(2, np.bool_), start_offset=0, base_position=5000)
    assert put_keys(offset_map, hashed, start_offset=0)
    cleaned = clean_batches(data, table, fates_of(table), offset_map, RULES, base_position=5000)
    assert bytes(cleaned.data) == data[table.row(0).size :]
    assert cleaned.table.row(0).position == 0


@pytest.mark.parametrize("codec", CODECS)
def test_damage_is_refused_where_it_is(codec: str) -> None:
    good = batch_of(record(0, b"a"))
    data = bytearray(good + batch_of(record(1, b"a"), codec=codec))
    data[-1] ^= 1
    table = scan_batches(data)
    for work in (
        lambda: hash_keys(OffsetMap(2400, key=bytes(16)), data, table, wanted=np.ones(2, np.bool_), start_offset=0),
        lambda: clean_batches(data, table, fates_of(table), OffsetMap(2400, key=bytes(16)), RULES),
    ):
        with pytest.raises(CorruptRecordError) as caught:
            work()
        assert (caught.value.position, caught.value.offset) == (len(good), 1)
