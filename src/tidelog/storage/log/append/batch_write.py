"""The write of checked batches with offsets at the log end. No lock here: the caller holds it.

``write_set`` writes a leader's or follower's batches as one set into one segment. ``write_single`` is the faster path
for a single batch; ``PlainAppends`` of the kernel does the same for a client's plain batch. ``write_run`` writes a bulk
append of this process, distributed over segments as if each batch were appended alone. The steps have the same order as
in Kafka: note epochs, roll if needed, check producers, write the batches, move the log end. Producer state, transaction
index and first unstable offset follow. Bytes written before a failure stay in the log.
"""

from __future__ import annotations

import numpy as np

from tidelog.kernel import BatchTable
from tidelog.model import LogOffsetMetadata, RecordBatchTooLargeError
from tidelog.model.offsets import MAX_RELATIVE_OFFSET
from tidelog.record.attributes import CONTROL_FLAG
from tidelog.record.batch_header import LENGTH, PREFIX_BYTES, PRODUCER
from tidelog.storage.log.append.producer_check import NO_CHANGES, Appender, ProducerChanges, check_producers
from tidelog.storage.log.state.log_state import LogState
from tidelog.storage.log.state.producer_state import aborted_entry
from tidelog.storage.producer import AppendOrigin, CachedBatch
from tidelog.storage.producer.replay_rows import ReplayBatch, replay_batches
from tidelog.storage.segment.segment import LogSegment


def write_set(
    state: LogState, data: memoryview, table: BatchTable, appender: Appender, now_ms: int
) -> CachedBatch | None:
    """Append all of ``table``'s batches to one segment. Return the original if they are a duplicate.

    Raise RecordBatchTooLargeError if no segment can hold the set's size or offset range, or an error of
    ``check_producers``. Nothing is written then.
    """
    note_epochs(state, table)
    size = int(table.size.sum())
    if size > state.config.segment_bytes:
        raise RecordBatchTooLargeError(
            f"a set of {size} bytes is larger than a segment of {state.config.segment_bytes}", path=state.directory
        )
    lowest = _lowest_offset(state, table)
    if table.summary.last_offset - lowest > MAX_RELATIVE_OFFSET:
        raise RecordBatchTooLargeError(
            f"the offsets {lowest} to {table.summary.last_offset} span more than a segment can hold",
            path=state.directory,
        )
    segment = state.active
    if not (segment.can_hold(table.summary.last_offset) and segment.has_room_for_set(table, now_ms)):
        segment = state.roll(lowest)
    place = LogOffsetMetadata(int(table.base_offset[0]), segment.base_offset, segment.size)
    changes = NO_CHANGES
    if table.summary.producer_id >= 0:
        batches = replay_batches(table, np.flatnonzero(table.producer_id >= 0))
        changes = check_producers(state, data, batches, appender, place)
    if changes.duplicate is None:
        _write_to(state, segment, data, table, changes)
    return changes.duplicate


def fits_fast_path(
    state: LogState, buffer: bytearray | memoryview, last_offset: int, max_timestamp: int, epoch: int, now_ms: int
) -> bool:
    """Return True if ``write_single`` can append ``buffer``: one batch of the latest epoch that fits the segment."""
    latest = state.epochs.latest_entry
    size = len(buffer)
    return (
        latest is not None
        and latest.epoch == epoch
        and latest.start_offset <= state.offsets.log_end.message_offset
        and size == PREFIX_BYTES + LENGTH.unpack_from(buffer)[0]
        and state.active.has_room_for(size, last_offset, max_timestamp, now_ms)
    )


def write_single(
    state: LogState, buffer: bytearray | memoryview, last_offset: int, max_timestamp: int, appender: Appender
) -> CachedBatch | None:
    """Append one batch like ``write_set``, without a table."""
    segment, producers = state.active, state.producers.state
    first = state.offsets.log_end.message_offset
    attributes, producer_id, producer_epoch, base_sequence = PRODUCER.unpack_from(buffer)
    entry, changes, batch = None, NO_CHANGES, None
    if producer_id >= 0:
        control = attributes & CONTROL_FLAG != 0
        who = (producer_id, producer_epoch, base_sequence)
        batch = ReplayBatch(*who, first, last_offset, max_timestamp, attributes, 0, len(buffer), control)
        entry = producers.continued(batch) if appender.origin is AppendOrigin.CLIENT else None
        if entry is None:
            place = LogOffsetMetadata(first, segment.base_offset, segment.size)
            changes = check_producers(state, memoryview(buffer), (batch,), appender, place)
            if changes.duplicate is not None:
                return changes.duplicate
    state.before_records(state.epochs.latest_epoch)
    state.dirty.add(segment.base_offset)
    segment.append_one(buffer, len(buffer), last_offset, max_timestamp)
    end = LogOffsetMetadata(last_offset + 1, segment.base_offset, segment.size)
    if batch is None:
        state.set_log_end(end)
        producers.map_end_offset = last_offset + 1
        return None
    state.offsets.set_log_end(end)
    if entry is None:
        _apply_changes(state, segment, changes, last_offset + 1)
    else:
        entry.add_batch(batch)
        producers.map_end_offset = last_offset + 1
        _after_producers(state)
    return None


def write_run(state: LogState, data: memoryview, table: BatchTable, now_ms: int) -> None:
    """Append ``table``'s batches segment by segment. Their producers are not checked."""
    note_epochs(state, table)
    row = 0
    while row < len(table):
        segment, rest = state.active, table.take(slice(row, None))
        count = segment.count_before_roll(rest, now_ms)
        if count == 0:
            segment = state.roll(int(rest.base_offset[0]))
            count = segment.count_before_roll(rest, now_ms)
        _write_to(state, segment, data, rest.take(slice(count)), None)
        row += count


def note_epochs(state: LogState, table: BatchTable) -> None:
    """Note each epoch at the first batch that carries it. A batch of a format without epochs clears all entries."""
    latest = state.epochs.latest_entry
    if (
        latest is not None
        and latest.epoch == table.summary.leader_epoch == int(table.leader_epoch.min())
        and latest.start_offset <= int(table.base_offset[0])
    ):
        return
    for magic, epoch, base_offset in zip(
        table.magic.tolist(), table.leader_epoch.tolist(), table.base_offset.tolist(), strict=True
    ):
        if magic >= 2:
            if epoch >= 0:
                state.assign_epoch(epoch, base_offset)
        elif state.epochs.clear():
            state.write_epochs()


def _write_to(
    state: LogState, segment: LogSegment, data: memoryview, table: BatchTable, changes: ProducerChanges | None
) -> None:
    """Write batches to a segment. With ``changes`` None, producers are replayed instead of checked."""
    start = int(table.position[0])
    part = data[start : int(table.position[-1]) + int(table.size[-1])]
    state.before_records(int(table.leader_epoch[0]))
    state.dirty.add(segment.base_offset)
    segment.append(part, table)
    end = table.summary.last_offset + 1
    state.offsets.set_log_end(LogOffsetMetadata(end, segment.base_offset, segment.size))
    if changes is not None:
        _apply_changes(state, segment, changes, end)
        return
    for entry in state.producers.apply(part, table):
        segment.append_aborted(entry)
    _after_producers(state)


def _apply_changes(state: LogState, segment: LogSegment, changes: ProducerChanges, end: int) -> None:
    """Apply the producer changes of a written append; the log ends at ``end``."""
    producers = state.producers
    for ended in changes.apply(producers.state):
        if ended.transaction.aborted:
            segment.append_aborted(aborted_entry(ended))
    producers.state.map_end_offset = end
    _after_producers(state)


def _after_producers(state: LogState) -> None:
    """Update the first unstable offset before the high watermark, because readers take no lock."""
    if state.has_no_transactions:
        if state.is_sole_replica:
            state.offsets.update_high_watermark(state.offsets.log_end)
        return
    state.update_first_unstable()
    if state.is_sole_replica:
        state.offsets.update_high_watermark(state.offsets.log_end)
        state.after_high_watermark()


def _lowest_offset(state: LogState, table: BatchTable) -> int:
    """Return the first record's offset. For v0 or v1 return its lower bound: a header may have the last offset."""
    if table.magic[0] < 2:
        return max(table.summary.last_offset - MAX_RELATIVE_OFFSET, state.offsets.log_end.message_offset)
    return int(table.base_offset[0])
