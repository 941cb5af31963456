"""The producer state over full batch tables, compared with one batch at a time, and its bookkeeping."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel import BatchTable
from tidelog.kernel.table import COLUMNS
from tidelog.model import CorruptRecordError, InvalidTransactionStateError
from tidelog.record.attributes import CONTROL_FLAG, TRANSACTIONAL_FLAG
from tidelog.record.control import EndTransactionMarker
from tidelog.storage.producer import AppendOrigin, MarkerRecord, ProducerState, read_marker


def varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def marker_batch(*, committed: bool, coordinator_epoch: int, timestamp: int = 50, delta: int = 3) -> bytes:
    """Return enough of a v2 batch for its marker to be read."""
    marker = EndTransactionMarker(committed=committed, coordinator_epoch=coordinator_epoch)
    body = bytes(1) + varint(delta) + varint(0)
    body += b"".join(varint(len(field)) + field for field in (marker.key(), marker.value())) + varint(0)
    header = bytearray(61)
    header[27:35] = (timestamp - delta).to_bytes(8, "big", signed=True)
    header[35:43] = (timestamp + 1000).to_bytes(8, "big", signed=True)
    header[57:61] = (1).to_bytes(4, "big")
    return bytes(header) + varint(len(body)) + body


# Kind, producer id, epoch, number of records. A marker's coordinator epoch is its number of records.
steps = st.lists(
    st.tuples(
        st.sampled_from(["data", "data", "data", "transactional", "transactional", "commit", "abort", "empty"]),
        st.integers(-1, 3),
        st.integers(0, 2),
        st.integers(1, 4),
    ),
    max_size=60,
)


def batches(plan: list[tuple[str, int, int, int]]) -> tuple[bytes, BatchTable]:
    data, rows, offset = b"", [], 40
    for kind, producer_id, epoch, count in plan:
        flags = {"data": 0, "transactional": TRANSACTIONAL_FLAG}.get(kind, CONTROL_FLAG | TRANSACTIONAL_FLAG)
        batch = bytes(61) if kind == "empty" or not flags & CONTROL_FLAG else b""
        batch = batch or marker_batch(committed=kind == "commit", coordinator_epoch=count)
        row = dict.fromkeys((name for name, _ in COLUMNS), 0) | {
            "position": 1000 + len(data),
            "size": len(batch),
            "magic": 2,
            "attributes": flags,
            "producer_id": producer_id,
            "producer_epoch": epoch,
            "base_offset": offset,
            "last_offset": offset + count - 1,
            "base_sequence": offset * 10,
            "max_timestamp": offset * 100,
        }
        rows.append(row)
        data += batch
        offset += count
    columns = {name: np.array([row[name] for row in rows], dtype) for name, dtype in COLUMNS}
    return data, BatchTable.from_columns(columns, 1000 + len(data))


def one_by_one(state: ProducerState, data: bytes, table: BatchTable) -> list[tuple[object, int]]:
    """Append batch by batch, as Kafka does."""
    ended: list[tuple[object, int]] = []
    for row in table.rows():
        if row.producer_id >= 0:
            info = state.prepare_update(row.producer_id, AppendOrigin.REPLICATION)
            completed = None
            if row.attributes & CONTROL_FLAG:
                at = row.position - 1000
                completed = info.append_marker(row, read_marker(data[at : at + row.size]))
            else:
                info.append_data(row)
            state.update(info)
            if completed is not None:
                ended.append((completed, state.complete(completed)))
        state.map_end_offset = row.last_offset + 1
    return ended


def summary(state: ProducerState) -> object:
    transactions = [(open_.producer_id, open_.first_offset) for open_ in state.transactions.ongoing]
    return (dict(state.producers), transactions, state.first_unstable_offset(), state.map_end_offset, state.snapshot())


@given(steps, st.integers(1, 60))
def test_whole_tables_as_one_batch_at_a_time(plan: list[tuple[str, int, int, int]], chunk: int) -> None:
    data, table = batches(plan)
    plain = ProducerState()
    try:
        expected = one_by_one(plain, data, table)
    except InvalidTransactionStateError as error:
        with pytest.raises(InvalidTransactionStateError, match=str(error.offset)):
            ProducerState().replay(data, table, base_position=1000)
        return
    state = ProducerState()
    ended = []
    for first in range(0, len(table), chunk):
        ended += state.replay(data, table.take(slice(first, first + chunk)), base_position=1000)
    assert ended == expected
    assert summary(state) == summary(plain)
    loaded = ProducerState()
    with loaded.loading():
        assert loaded.replay(data, table, base_position=1000) == expected
    assert summary(loaded)[:4] == summary(plain)[:4]  # type: ignore[index]


def test_many_batches_of_one_producer() -> None:
    data, table = batches([("transactional", 1, 0, 2)] * 500 + [("abort", 1, 0, 4)] + [("data", 2, 1, 1)] * 500)
    state = ProducerState()
    (ended,) = state.replay(data, table, base_position=1000)
    assert ended.transaction == (1, 40, 1040, True)
    assert ended.last_stable_offset == 1041
    assert [batch.last_offset for batch in state.producers[1].batches] == [1031, 1033, 1035, 1037, 1039]
    assert [batch.last_offset for batch in state.producers[2].batches] == [1539, 1540, 1541, 1542, 1543]
    assert state.producers[1].last_timestamp == 50


def test_a_marker_record() -> None:
    batch = marker_batch(committed=False, coordinator_epoch=9, timestamp=77)
    expected = EndTransactionMarker(committed=False, coordinator_epoch=9)
    assert read_marker(batch) == MarkerRecord(expected, 77)
    log_append_time = bytearray(batch)
    log_append_time[22] |= 0x08
    assert read_marker(log_append_time) == MarkerRecord(expected, 1077)
    assert read_marker(bytes(61)) is None
    for length in range(61, len(batch) - 1):
        with pytest.raises(CorruptRecordError):
            read_marker(batch[:length])
    with pytest.raises(CorruptRecordError, match="of 60 bytes"):
        read_marker(batch[:60])


@given(st.binary(max_size=80), st.integers(0, 2**31 - 1))
def test_any_bytes_are_a_marker_or_refused(data: bytes, count: int) -> None:
    header = bytearray(61)
    header[57:61] = count.to_bytes(4, "big")
    try:
        assert (read_marker(bytes(header) + data) is None) == (count == 0)
    except CorruptRecordError:
        pass


def test_offsets_of_the_log() -> None:
    data, table = batches([("transactional", 1, 0, 2), ("abort", 1, 0, 1), ("data", 2, 0, 1)])
    state = ProducerState()
    state.replay(data, table, base_position=1000)
    assert (state.map_end_offset, state.needs_snapshot, state.is_empty) == (44, True, False)
    state.snapshot_taken()
    assert not state.needs_snapshot
    assert state.first_unstable_offset() is not None
    state.on_log_start_offset_incremented(43, 42)
    assert state.first_unstable_offset() is None
    assert (state.map_end_offset, state.last_snapshot_offset) == (44, 42)
    state.on_log_start_offset_incremented(50, None)
    assert (state.map_end_offset, state.last_snapshot_offset) == (50, 50)
    state.start_at(60)
    assert (state.is_empty, state.map_end_offset, state.last_snapshot_offset) == (True, 60, 0)


def test_expiry() -> None:
    data, table = batches([("data", 1, 0, 1), ("transactional", 2, 0, 1), ("data", 3, 0, 1)])
    state = ProducerState(expiration_ms=100)
    state.replay(data, table, base_position=1000)
    assert state.remove_expired(4099) == 0
    assert state.remove_expired(4100) == 1
    assert list(state.producers) == [2, 3]
    assert state.remove_expired(10**6) == 1
    assert list(state.producers) == [2]
    assert len(state.snapshot()) == 10 + 46


def test_loading_orders_new_producers_as_kafkas_map_would() -> None:
    """Ids 17 and 1 share a bucket. computeIfAbsent puts the later id in front, and the state takes over that order."""
    data, table = batches([("data", 1, 0, 1), ("data", 17, 0, 1)])
    recovered, loaded = ProducerState(), ProducerState()
    recovered.replay(data, table, base_position=1000)
    with loaded.loading():
        loaded.replay(data, table, base_position=1000)
    ids = [state.snapshot()[17::46] for state in (recovered, loaded)]
    assert [list(found) for found in ids] == [[1, 17], [17, 1]]
