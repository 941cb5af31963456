"""Random operations on one log, compared at each step with a model that is a list of batches."""

from __future__ import annotations

import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from log_maker import BASE_TIME, CONTROL, TRANSACTIONAL, batch
from state_machines import run_machine
from storage.log.log_model import LogModel, ModelBatch, ModelProducer, ModelTransaction
from tidelog.kernel import scan_batches
from tidelog.model import (
    InvalidProducerEpochError,
    Isolation,
    LogOffsetMetadata,
    OffsetOutOfRangeError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    UnexpectedAppendOffsetError,
)
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.partition_log import LogReadRequest, OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import AppendOrigin
from tidelog.testing import ManualClock

PRODUCERS = st.integers(1, 3)
HOUR = 3_600_000


class LogMachine(RuleBasedStateMachine):
    """A replicated log of small segments. Separate rules move the high watermark."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = tempfile.TemporaryDirectory()
        self.clock = ManualClock(BASE_TIME + HOUR)
        self.model = LogModel()
        self.written: dict[int, ModelBatch] = {}
        """Batches by last offset, including deleted ones at the log's beginning, because a snapshot remembers more."""
        self.epoch = 0
        self.value = 0
        self.log_or_none: PartitionLog | None = None
        self.recovery_point = 0

    @initialize(
        segment_bytes=st.sampled_from([400, 1000, 5000]),
        interval=st.sampled_from([0, 100, 4096]),
        index_bytes=st.sampled_from([36, 4096]),
    )
    def open_first(self, segment_bytes: int, interval: int, index_bytes: int) -> None:
        self.config = LogConfig(
            segment_bytes=segment_bytes,
            index_interval_bytes=interval,
            segment_index_bytes=index_bytes,
            retention_ms=HOUR,
            file_delete_delay_ms=1000,
        )
        self.open(clean=True)

    def open(self, *, clean: bool) -> None:
        self.log_or_none = PartitionLog.open(
            OpenRequest(
                fs=LOCAL,
                directory=Path(self.harness.name) / "t-0",
                clock=self.clock,
                config=self.config,
                clean_shutdown=clean,
                recovery_point=self.recovery_point,
                log_start_offset=self.model.log_start,
                high_watermark=self.model.high_watermark,
                is_sole_replica=False,
            )
        )

    @property
    def log(self) -> PartitionLog:
        assert self.log_or_none is not None
        return self.log_or_none

    def teardown(self) -> None:
        if self.log_or_none is not None:
            self.log.close()
        self.harness.cleanup()

    # --- making batches ---

    def values(self, count: int, size: int) -> list[bytes]:
        self.value += count
        return [b"%0*d" % (size, self.value + number) for number in range(count)]

    def note_appended(self, buffer: bytearray, **fields: Any) -> list[ModelBatch]:
        """Return the model's batches of an append, as the engine left the buffer."""
        table = scan_batches(buffer)
        made = []
        for number in range(len(table)):
            row = table.row(number)
            made.append(
                ModelBatch(
                    first=row.base_offset,
                    last=row.last_offset,
                    epoch=row.leader_epoch,
                    data=bytes(buffer[row.position : row.position + row.size]),
                    max_timestamp=row.max_timestamp,
                    **fields,
                )
            )
        self.written.update({one.last: one for one in made})
        return made

    # --- rules: appending as the leader ---

    @rule(count=st.integers(1, 8), size=st.sampled_from([1, 20, 90]), later=st.integers(0, 5000))
    def append_as_leader(self, count: int, size: int, later: int) -> None:
        self.clock.now += later
        buffer = bytearray(batch(0, self.values(count, size), timestamp=self.clock.now))
        if len(buffer) > self.config.segment_bytes:
            with pytest.raises(RecordBatchTooLargeError):
                self.log.append_as_leader(buffer, leader_epoch=self.epoch)
            return
        result = self.log.append_as_leader(buffer, leader_epoch=self.epoch)
        assert result.offsets == range(self.model.log_end, self.model.log_end + count)
        for made in self.note_appended(buffer):
            self.model.append(made)

    @rule(producer=PRODUCERS, count=st.integers(1, 3), bump=st.booleans())
    def append_in_transaction(self, producer: int, count: int, bump: bool) -> None:
        self.append_idempotent(producer, count, transactional=True, bump=bump)

    @rule(producer=PRODUCERS, count=st.integers(1, 3), transactional=st.booleans(), bump=st.booleans())
    def append_idempotent(self, producer: int, count: int, transactional: bool, bump: bool) -> None:
        """Append the next batch of a producer. An epoch bump begins at sequence 0."""
        opened = self.model.open_transaction(producer)
        transactional = transactional or opened is not None
        known = self.model.producers.get(producer)
        epoch = 0 if known is None else known.epoch + (bump and opened is None)
        sequence = known.next_sequence if known is not None and epoch == known.epoch else 0
        buffer = self.producer_batch(producer, epoch, sequence, count, transactional)
        result = self.log.append_as_leader(buffer, leader_epoch=self.epoch)
        assert not result.is_duplicate
        assert result.offsets == range(self.model.log_end, self.model.log_end + count)
        for made in self.note_appended(
            buffer, producer_id=producer, producer_epoch=epoch, sequence=sequence, transactional=transactional
        ):
            self.model.append(made)

    def producer_batch(self, producer: int, epoch: int, sequence: int, count: int, transactional: bool) -> bytearray:
        return bytearray(
            batch(
                0,
                self.values(count, 10),
                timestamp=self.clock.now,
                attributes=TRANSACTIONAL if transactional else 0,
                producer_id=producer,
                producer_epoch=epoch,
                sequence=sequence,
            )
        )

    @precondition(lambda self: self.with_batches())
    @rule(data=st.data())
    def append_duplicate(self, data: st.DataObject) -> None:
        """Send one of the last five batches again: the result has its offsets, and nothing is written."""
        producer = data.draw(st.sampled_from(self.with_batches()), label="producer")
        known = self.model.producers[producer]
        first = data.draw(st.sampled_from(known.batches), label="batch")
        buffer = self.producer_batch(
            producer, known.epoch, first.sequence, first.last - first.first + 1, first.transactional
        )
        result = self.log.append_as_leader(buffer, leader_epoch=self.epoch)
        assert result.is_duplicate
        assert (result.first_offset, result.last_offset) == (first.first, first.last)

    def with_batches(self) -> list[int]:
        """Return the producers of which the log knows a batch."""
        return [producer for producer, known in self.model.producers.items() if known.batches]

    def in_transaction(self) -> list[int]:
        return sorted({one.producer_id for one in self.model.transactions if one.marker is None})

    @precondition(lambda self: self.with_batches())
    @rule(data=st.data(), ahead=st.integers(1, 10))
    def append_out_of_order(self, data: st.DataObject, ahead: int) -> None:
        producer = data.draw(st.sampled_from(self.with_batches()), label="producer")
        known = self.model.producers[producer]
        transactional = self.model.open_transaction(producer) is not None
        buffer = self.producer_batch(producer, known.epoch, known.next_sequence + ahead, 1, transactional)
        with pytest.raises(OutOfOrderSequenceError):
            self.log.append_as_leader(buffer, leader_epoch=self.epoch)

    @precondition(lambda self: any(known.epoch > 0 for known in self.model.producers.values()))
    @rule(data=st.data())
    def append_fenced(self, data: st.DataObject) -> None:
        fenced = [producer for producer, known in self.model.producers.items() if known.epoch > 0]
        producer = data.draw(st.sampled_from(fenced), label="producer")
        known = self.model.producers[producer]
        buffer = self.producer_batch(producer, known.epoch - 1, 0, 1, transactional=False)
        with pytest.raises(InvalidProducerEpochError):
            self.log.append_as_leader(buffer, leader_epoch=self.epoch)

    @precondition(lambda self: self.in_transaction())
    @rule(data=st.data(), commit=st.booleans(), bump=st.booleans())
    def end_transaction(self, data: st.DataObject, commit: bool, bump: bool) -> None:
        producer = data.draw(st.sampled_from(self.in_transaction()), label="producer")
        epoch = self.model.producers[producer].epoch + bump
        buffer = bytearray(
            batch(
                0,
                [struct.pack(">hi", 0, 0)],
                key=b"\0\0\0" + bytes([commit]),
                timestamp=self.clock.now,
                attributes=TRANSACTIONAL | CONTROL,
                producer_id=producer,
                producer_epoch=epoch,
                sequence=-1,
            )
        )
        self.log.append_as_leader(buffer, leader_epoch=self.epoch, origin=AppendOrigin.COORDINATOR)
        (made,) = self.note_appended(
            buffer, producer_id=producer, producer_epoch=epoch, transactional=True, control=True
        )
        self.model.end_transaction(made, aborted=not commit)

    # --- rules: appending as a follower ---

    @rule(gap=st.integers(0, 3), counts=st.lists(st.integers(1, 3), min_size=1, max_size=3), cut=st.booleans())
    def append_as_follower(self, gap: int, counts: list[int], cut: bool) -> None:
        """Append with the leader's offsets. A gap stems from compaction, an incomplete batch from the fetch size."""
        offset, buffer = self.model.log_end + gap, bytearray()
        for count in counts:
            buffer += batch(offset, self.values(count, 10), timestamp=self.clock.now, epoch=self.epoch)
            offset += count
        if len(buffer) > self.config.segment_bytes:
            return
        result = self.log.append_as_follower(bytes(buffer) + (bytes(buffer[:70]) if cut else b""), self.epoch)
        assert result.last_offset == offset - 1
        for made in self.note_appended(buffer):
            self.model.append(made)

    @precondition(lambda self: self.model.log_end > 0)
    @rule(below=st.integers(1, 5))
    def append_below_the_end(self, below: int) -> None:
        offset = max(0, self.model.log_end - below)
        with pytest.raises(UnexpectedAppendOffsetError):
            self.log.append_as_follower(batch(offset, [b"x"], epoch=self.epoch), self.epoch)

    @rule()
    def a_later_epoch_is_cut(self) -> None:
        """Send a batch of an epoch above the follower's epoch: it is left out."""
        buffer = batch(self.model.log_end, [b"later"], epoch=self.epoch + 1)
        result = self.log.append_as_follower(buffer, self.epoch)
        assert not len(result.offsets)

    @rule(steps=st.integers(1, 2))
    def new_leader(self, steps: int) -> None:
        self.epoch += steps
        self.log.assign_epoch(self.epoch, self.model.log_end)

    # --- rules: the other offsets ---

    @rule(data=st.data())
    def move_high_watermark(self, data: st.DataObject) -> None:
        end = self.model.log_end
        wanted = data.draw(st.just(end) | st.integers(0, end + 2), label="high watermark")
        self.model.high_watermark = min(max(wanted, self.model.log_start), self.model.log_end)
        assert self.log.update_high_watermark(wanted) == self.model.high_watermark

    @rule(data=st.data())
    def increment_high_watermark(self, data: st.DataObject) -> None:
        wanted = data.draw(st.integers(0, self.model.log_end + 1), label="high watermark")
        if wanted > self.model.log_end:
            with pytest.raises(ValueError, match="past the log end"):
                self.log.maybe_increment_high_watermark(LogOffsetMetadata(wanted))
            return
        before = self.model.high_watermark
        if wanted == before:
            return
        answer = self.log.maybe_increment_high_watermark(LogOffsetMetadata(wanted))
        if wanted > before:
            assert answer is not None
            assert answer.message_offset == before
            self.model.high_watermark = wanted
        else:
            assert answer is None

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.model.log_end), label="log start")
        if offset > self.model.high_watermark:
            with pytest.raises(OffsetOutOfRangeError):
                self.log.maybe_increment_log_start_offset(offset)
            return
        assert self.log.maybe_increment_log_start_offset(offset) == (offset > self.model.log_start)
        self.model.delete_below(offset)

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        """Truncate at the end of a batch, as a follower does, or below all batches."""
        base = self.log.base_offsets[0]
        ends = [base, *(made.last + 1 for made in self.model.batches), self.model.log_end + 1]
        offset = data.draw(st.sampled_from(ends) | st.integers(0, base), label="truncate to")
        below = offset < base
        was_within = offset < self.model.log_end
        assert self.log.truncate_to(offset) == was_within
        if below:
            self.model.begin_at(offset, offset)
        else:
            self.model.truncate(offset)
        self.after_reload()

    @rule(ahead=st.integers(0, 50), chance=st.integers(0, 9))
    def begin_anew(self, ahead: int, chance: int) -> None:
        """Restart the log as a follower that is too far behind. The chance is low, because it ends each scenario."""
        if chance != 9:
            return
        offset = self.model.log_end + ahead
        self.log.truncate_fully_and_start_at(offset)
        self.model.begin_at(offset, offset)

    @rule(later=st.sampled_from([0, HOUR // 2, HOUR, 2 * HOUR]), caught_up=st.booleans())
    def apply_retention(self, later: int, caught_up: bool) -> None:
        self.clock.now += later
        if caught_up:
            self.model.high_watermark = self.log.update_high_watermark(self.model.log_end)
        bases = self.log.base_offsets
        decision = self.log.delete_old_segments()
        gone = [deletion.segment.base_offset for deletion in decision.deletions]
        assert gone == bases[: len(gone)]
        assert self.log.log_start_offset <= self.model.high_watermark
        self.model.delete_below(self.log.log_start_offset)

    @rule(later=st.sampled_from([0, 1000]))
    def remove_deleted(self, later: int) -> None:
        self.clock.now += later
        self.log.remove_deleted()
        if later:
            assert not list((Path(self.harness.name) / "t-0").glob("*.deleted"))

    # --- rules: rolling, flushing, reopening ---

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(data=st.data())
    def flush(self, data: st.DataObject) -> None:
        up_to = data.draw(st.none() | st.integers(0, self.model.log_end), label="up to")
        before = self.log.recovery_point
        reached = self.log.flush(up_to)
        assert reached == max(before, self.model.log_end if up_to is None else up_to)

    @rule()
    def close_and_reopen(self) -> None:
        self.log.close()
        self.recovery_point = self.log.recovery_point
        assert self.recovery_point == self.model.log_end
        self.open(clean=True)
        self.after_reload()

    @rule()
    def kill_and_reopen(self) -> None:
        """Kill the process, keep its files, and open the log again."""
        self.recovery_point = self.log.recovery_point
        for segment in self.log._state.segments:
            segment.close_handlers()
        self.log._state.deleted.close_handlers()
        self.log._lifecycle.is_closed = True
        self.open(clean=False)
        self.after_reload()

    def after_reload(self) -> None:
        """Check the producers that the log knows, then copy them into the model: snapshots keep only last batches."""
        model, state = self.model, self.log.producers
        model.reloaded = True
        note(f"producers {state}")
        self.written = {last: made for last, made in self.written.items() if last < model.log_end}
        wanted = {}
        for producer_id, entry in state.items():
            mine = [made for made in model.batches if made.producer_id == producer_id]
            if mine:
                assert entry.producer_epoch == mine[-1].producer_epoch
            data = [made for made in mine if not made.control and made.producer_epoch == entry.producer_epoch]
            cached = list(entry.batches)
            if data and mine[-1].first >= model.log_start:
                assert cached[-1].last_offset == data[-1].last
            opened = model.open_transaction(producer_id)
            if opened is not None and opened.first >= model.log_start:
                assert entry.transaction_first_offset == opened.first
            wanted[producer_id] = ModelProducer(entry.producer_epoch, [self.written[one.last_offset] for one in cached])
        for producer_id in {made.producer_id for made in model.batches if made.producer_id >= 0}:
            assert producer_id in state
        model.producers = wanted
        model.transactions = [one for one in model.transactions if self.is_remembered(one)]

    def is_remembered(self, transaction: ModelTransaction) -> bool:
        """Move the start of a transaction whose first records were deleted, and return True if the log remembers it."""
        if transaction.marker is None and transaction.first < self.model.log_start:
            entry = self.log.producers.get(transaction.producer_id)
            if entry is None or entry.transaction_first_offset is None:
                return False
            transaction.first = entry.transaction_first_offset
        return transaction.marker is not None or transaction.producer_id in self.log.producers

    # --- invariants ---

    @invariant()
    def offsets_are_the_models(self) -> None:
        if self.log_or_none is None:
            return
        offsets, model = self.log.offsets(), self.model
        assert offsets.log_start == self.log.log_start_offset == model.log_start
        assert offsets.log_end.message_offset == self.log.end_offset == model.log_end
        assert offsets.high_watermark.message_offset == self.log.high_watermark == model.high_watermark
        model.settle()
        stable = offsets.last_stable.message_offset
        if model.reloaded:
            ceiling = model.high_watermark if model.first_open is None else max(model.first_open, model.log_start)
            assert model.last_stable <= stable <= min(ceiling, model.high_watermark)
        else:
            assert stable == model.last_stable
        if model.high_watermark == model.log_end:
            model.reloaded = False
        assert not offsets.high_watermark.is_offset_only
        assert self.log.recovery_point <= model.log_end
        for made in model.batches:
            epoch = self.log._state.epochs.epoch_for_offset(max(made.first, model.log_start))
            assert epoch == made.epoch, made

    @invariant()
    def reads_are_the_models(self) -> None:
        if self.log_or_none is None:
            return
        model, offsets = self.model, self.log.offsets()
        limits = {
            Isolation.LOG_END: model.log_end,
            Isolation.READ_UNCOMMITTED: model.high_watermark,
            Isolation.READ_COMMITTED: offsets.last_stable.message_offset,
        }
        for isolation, limit in limits.items():
            expected = model.readable(model.log_start, limit)
            offset, found = model.log_start, b""
            while True:
                answer = self.log.read(LogReadRequest(start_offset=offset, max_bytes=300, isolation=isolation))
                table = scan_batches(answer.data())
                if not len(table):
                    break
                assert table.last_offset[-1] >= offset, "a read that does not come forward"
                found += answer.data()[: table.end_position]
                if isolation is Isolation.READ_COMMITTED:
                    assert answer.aborted is not None
                    told = {(one.producer_id, one.first_offset, one.last_offset) for one in answer.aborted}
                    needed = model.aborted(offset, int(table.last_offset[-1]) + 1)
                    assert {one for one in needed if one[1] >= model.log_start} <= told
                offset = int(table.last_offset[-1]) + 1
            assert found == b"".join(made.data for made in expected), isolation

    @precondition(lambda self: self.model.batches)
    @rule(data=st.data())
    def look_up_a_timestamp(self, data: st.DataObject) -> None:
        """Find the first record at or after the timestamp, in batches that begin below the high watermark."""
        target = data.draw(st.sampled_from([made.max_timestamp for made in self.model.batches]), label="timestamp")
        readable = [made for made in self.model.batches if made.first < self.model.high_watermark]
        holding = next((made for made in readable if made.max_timestamp >= target), None)
        found = self.log.offset_for_timestamp(target)
        if holding is None or found is None:
            assert found is None or found.offset < self.model.high_watermark
            return
        assert holding.first <= found.offset <= holding.last or found.offset > holding.last
        assert found.timestamp >= target

    @rule(offset=st.integers(0, 3))
    def reads_out_of_range_are_refused(self, offset: int) -> None:
        with pytest.raises(OffsetOutOfRangeError):
            self.log.read(LogReadRequest(start_offset=self.model.log_end + 1 + offset, max_bytes=100))


def test_a_log_is_a_list() -> None:
    run_machine(LogMachine, steps=50, examples=50)


@pytest.mark.slow
def test_a_log_is_a_list_for_long() -> None:
    run_machine(LogMachine, steps=100, examples=600)
