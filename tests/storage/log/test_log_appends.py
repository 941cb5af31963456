"""Appends to a log on disk as a leader, a Raft leader and a follower: offsets, epochs, producers, indexes, errors."""

from __future__ import annotations

import re
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from legacy_messages import Message, encode_set
from log_maker import CONTROL, TRANSACTIONAL, batch, plain
from storage.log.log_harness import NOW, RECORD_BYTES, LogHarness, read
from tidelog.model import (
    CorruptRecordError,
    InvalidTransactionStateError,
    Isolation,
    OffsetsOutOfOrderError,
    OutOfOrderSequenceError,
    RecordBatchTooLargeError,
    StorageError,
    TidelogError,
    UnexpectedAppendOffsetError,
)
from tidelog.record.attributes import codec_number
from tidelog.record.build import build_batch
from tidelog.record.rows import columns_from_lists
from tidelog.storage.fs import LocalFileSystem
from tidelog.storage.index import AbortedTxn, TransactionIndexReader
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.partition_log import LogReadRequest, PartitionLog
from tidelog.storage.producer import NO_GUARD, AppendOrigin, ProducerEntry, VerificationGuard
from tidelog.storage.segment.segment import LogSegment

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
THREE = [b"a", b"b", b"c"]


def fetched(offset: int, values: list[bytes], *, magic: int = 2, codec: str = "none", epoch: int = 0) -> bytes:
    """Make records as a leader sends them to its followers, in any format and codec."""
    if magic == 2:
        columns = columns_from_lists(values, default_timestamp_ms=NOW)
        return bytes(build_batch(columns, base_offset=offset, codec=codec, leader_epoch=epoch))
    messages = [Message(offset + number, NOW, b"k", value) for number, value in enumerate(values)]
    return encode_set(messages, magic, codec_number(codec))


def end_transaction(
    log: PartitionLog, *, commit: bool, producer_id: int, producer_epoch: int, coordinator_epoch: int = 0
) -> AppendResult:
    made = batch(
        0,
        [struct.pack(">hi", 0, coordinator_epoch)],
        key=struct.pack(">hh", 0, int(commit)),
        timestamp=NOW,
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        sequence=-1,
    )
    return log.append_as_leader(bytearray(made), leader_epoch=0, origin=AppendOrigin.COORDINATOR)


class TestOffsets:
    def test_the_answer_says_where_the_records_went(self, harness: LogHarness) -> None:
        log = harness.open()
        for rolls in (False, False, True):
            if rolls:
                log.roll()
            end = log.end_offset
            result = log.append_as_leader(bytearray(batch(0, THREE, timestamp=NOW)), leader_epoch=0)
            assert (result.first_offset, result.last_offset) == (end, end + 2)
            assert result.max_timestamp == NOW + 2
            assert (result.log_append_time, result.is_duplicate) == (-1, False)
        assert log.base_offsets == [0, 6]
        assert log.end_offset == 9

    @pytest.mark.parametrize("as_leader", [True, False], ids=["leader", "follower"])
    @pytest.mark.parametrize("missing", [0, 1])
    def test_a_set_fits_a_segment_of_its_size_and_none_that_is_smaller(
        self, harness: LogHarness, as_leader: bool, missing: int
    ) -> None:
        """A set is not divided, so it must fit into one segment."""
        made = plain(0, 4, timestamp=NOW)
        log = harness.open(segment_bytes=len(made) - missing)

        refusals = []
        try:
            if as_leader:
                log.append_as_leader(bytearray(made), leader_epoch=0)
            else:
                log.append_as_follower(made, 0)
        except RecordBatchTooLargeError as error:
            refusals.append(error.message)
        assert [f"{len(made)} bytes is larger than a segment" in refusal for refusal in refusals] == [True] * missing
        assert log.end_offset == (0 if missing else 4)

    def test_a_raft_leader_gives_them_itself(self, harness: LogHarness) -> None:
        log = harness.open()
        for offset, taken in ((0, True), (1, False), (3, True), (5, False), (6, True), (10, True)):
            made = bytearray(batch(offset, THREE, timestamp=NOW, epoch=4))
            if taken:
                result = log.append_as_leader(made, leader_epoch=4, origin=AppendOrigin.RAFT_LEADER)
                assert result.offsets == range(offset, offset + 3)
            else:
                with pytest.raises(UnexpectedAppendOffsetError) as caught:
                    log.append_as_leader(made, leader_epoch=4, origin=AppendOrigin.RAFT_LEADER)
                assert caught.value.offset == offset
        assert log.end_offset == 13
        assert read(log, 0) == [0, 3, 6, 10]
        assert harness.epochs() == [(4, 0)]

    def test_a_follower_keeps_the_leaders_gaps(self, harness: LogHarness) -> None:
        """A read from any offset finds the first record at or after it, across segments of one record and gaps."""
        log = harness.open(segment_bytes=RECORD_BYTES + 10)
        offsets = [*range(50), *range(50, 200, 7)]
        for offset in offsets:
            log.append_as_follower(plain(offset, 1, timestamp=NOW), 0)
        assert log.end_offset == offsets[-1] + 1
        assert len(log.base_offsets) == len(offsets)
        for start in range(offsets[-1]):
            expected = min(offset for offset in offsets if offset >= start)
            found = log.read(LogReadRequest(start_offset=start, isolation=Isolation.LOG_END, max_bytes=100)).data()
            assert found.startswith(plain(expected, 1, timestamp=NOW))

    @pytest.mark.parametrize("codec", CODECS)
    def test_an_offset_inside_a_compressed_batch_finds_its_batch(self, harness: LogHarness, codec: str) -> None:
        log = harness.open(segment_bytes=110)
        for values in ([b"hello", b"there"], [b"alpha", b"beta"]):
            built = build_batch(columns_from_lists(values, default_timestamp_ms=NOW), codec=codec)
            log.append_as_leader(bytearray(built), leader_epoch=0)
        assert log.base_offsets == [0, 2]
        assert [read(log, offset) for offset in range(5)] == [[0], [0], [2], [2], []]


class TestAsFollower:
    def test_the_epochs_of_the_batches_are_noted(self, harness: LogHarness) -> None:
        log = harness.open()
        for offset in range(50):
            log.append_as_follower(batch(offset, [b"%d" % offset], epoch=42), 45)
        assert harness.epochs() == [(42, 0)]
        log.append_as_follower(batch(50, THREE, epoch=42) + batch(53, THREE, epoch=43) + batch(56, THREE, epoch=45), 45)
        assert harness.epochs() == [(42, 0), (43, 53), (45, 56)]

    def test_batches_of_an_epoch_it_does_not_know_are_left_out(self, harness: LogHarness) -> None:
        log = harness.open()
        result = log.append_as_follower(batch(0, THREE, epoch=1) + batch(3, THREE, epoch=2), 1)
        assert result.offsets == range(3)
        assert log.end_offset == 3
        assert harness.epochs() == [(1, 0)]
        assert read(log, 0) == [0]

    @pytest.mark.parametrize("codec", ["none", "lz4"])
    @pytest.mark.parametrize("magic", [0, 1])
    def test_batches_of_an_old_format_end_the_epochs(self, harness: LogHarness, magic: int, codec: str) -> None:
        log = harness.open()
        harness.add(log, epoch=5)
        assert harness.epochs() == [(5, 0)]
        log.append_as_follower(fetched(1, THREE, magic=magic, codec=codec), 5)
        assert harness.epochs() == []
        assert log.end_offset == 4
        harness.add(log, epoch=6)
        assert harness.epochs() == [(6, 4)]

    @pytest.mark.parametrize("codec", ["none", "lz4"])
    @pytest.mark.parametrize("magic", [0, 1, 2])
    @pytest.mark.parametrize(("log_start", "first"), [(0, 0), (0, 1), (7, 4)])
    def test_nothing_below_the_log_end(
        self, harness: LogHarness, log_start: int, first: int, magic: int, codec: str
    ) -> None:
        """The append is refused in a log with two records and in an empty log that begins at 7, in each format."""
        log = harness.open(log_start=log_start)
        if not log_start:
            harness.add(log, 2)
        end = log.end_offset
        count = 1 if not log_start else 3
        with pytest.raises(UnexpectedAppendOffsetError, match=f"last offset: {first + count - 1},") as caught:
            log.append_as_follower(fetched(first, THREE[:count], magic=magic, codec=codec), 0)
        assert caught.value.offset == first
        assert (log.end_offset, log.log_start_offset) == (end, log_start)
        assert log.append_as_follower(fetched(end, THREE, magic=magic, codec=codec), 0).last_offset == end + 2

    def test_the_error_names_the_first_ten_offsets(self, harness: LogHarness) -> None:
        """The error lists offsets of records, not of batches: the tenth is the second of its batch."""
        log = harness.open()
        harness.add(log, 30)
        twelve = b"".join(fetched(offset, THREE, codec="lz4") for offset in (0, 3, 6, 9))
        ten = "first offsets: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]"
        with pytest.raises(UnexpectedAppendOffsetError, match=re.escape(f"{ten}, last offset: 11,")):
            log.append_as_follower(twelve, 0)
        with pytest.raises(OffsetsOutOfOrderError, match=re.escape(ten)):
            log.append_as_follower(twelve + fetched(0, THREE), 0)
        nine = "first offsets: [0, 1, 2, 3, 4, 5, 6, 7, 8], last offset: 8,"
        with pytest.raises(UnexpectedAppendOffsetError, match=re.escape(nine)):
            log.append_as_follower(twelve[: len(twelve) // 4 * 3], 0)

    def test_offsets_have_to_ascend(self, harness: LogHarness) -> None:
        log = harness.open()
        for offsets in ((0, 1, 3, 2, 4), (0, 0), (1, 0)):
            with pytest.raises(OffsetsOutOfOrderError, match="first offsets: "):
                log.append_as_follower(b"".join(batch(offset, [b"x"]) for offset in offsets), 0)
            assert log.end_offset == 0
            assert log.size == 0
        log.append_as_follower(b"".join(batch(offset, [b"x"]) for offset in (0, 1, 3, 4)), 0)
        assert log.end_offset == 5

    @pytest.mark.parametrize(
        ("content", "error"),
        [
            pytest.param(b"", None, id="nothing"),
            pytest.param(plain(0)[:11], None, id="a part of a prefix"),
            pytest.param(plain(0)[:16], None, id="a part of a header"),
            pytest.param(plain(0)[:-1], None, id="a part of a batch"),
            pytest.param(struct.pack(">qi", 0, 2**31 - 1) + plain(0)[12:], None, id="a size past the end"),
            pytest.param(struct.pack(">qi", 0, 2) + b"\0" * 80, CorruptRecordError, id="a size that is too small"),
            pytest.param(struct.pack(">qi", 0, -1) + b"\0" * 80, CorruptRecordError, id="a negative size"),
            pytest.param(plain(0)[:16] + b"\xff" + plain(0)[17:], CorruptRecordError, id="a negative format"),
            pytest.param(plain(0)[:16] + b"\x03" + plain(0)[17:], CorruptRecordError, id="a later format"),
            pytest.param(plain(0)[:-1] + b"?", CorruptRecordError, id="a wrong CRC"),
        ],
    )
    def test_what_is_no_batch(self, harness: LogHarness, content: bytes, error: type[TidelogError] | None) -> None:
        """An incomplete batch at the end of a fetch is ignored, and a broken batch raises an error."""
        log = harness.open()
        if error is None:
            assert not log.append_as_follower(content, 2**31 - 1).offsets
        else:
            with pytest.raises(error):
                log.append_as_follower(content, 2**31 - 1)
        assert (log.end_offset, log.size, log.is_healthy) == (0, 0, True)

    def test_every_timestamp_gets_into_the_index(self, harness: LogHarness) -> None:
        log = harness.open(segment_bytes=10_000, index_interval_bytes=1)
        for number in range(100):
            log.append_as_follower(plain(100 + number, 1, timestamp=NOW + number), 0)
        assert len(log.base_offsets) == 1
        index = log._state.active.time_index
        assert index.entries == 99, "all but the first, in front of which there is nothing"
        assert index.last_entry == (NOW + 99, 199)

    def test_sequences_are_the_leaders_to_check(self, harness: LogHarness) -> None:
        log = harness.open()
        for offset in (0, 2):
            log.append_as_follower(batch(offset, THREE[:2], producer_id=1, sequence=0), 0)
        assert log.end_offset == 4
        assert read(log, 0) == [0, 2]
        assert log.producers[1].last_data_offset == 3


class TestProducers:
    def test_what_is_known_of_each(self, harness: LogHarness) -> None:
        def known(entry: ProducerEntry) -> tuple[int, int, int | None, int]:
            return entry.producer_epoch, entry.last_sequence, entry.transaction_first_offset, entry.coordinator_epoch

        log = harness.open()
        five = [b"%d" % number for number in range(5)]
        harness.produce(log, five, producer_id=1, producer_epoch=5, sequence=0, attributes=TRANSACTIONAL)
        assert known(log.producers[1]) == (5, 4, 0, -1)
        end_transaction(log, commit=True, producer_id=1, producer_epoch=5, coordinator_epoch=15)
        assert known(log.producers[1]) == (5, 4, None, 15)
        harness.produce(log, THREE, producer_id=2, producer_epoch=5, sequence=0)
        assert known(log.producers[2]) == (5, 2, None, -1)
        assert set(log.producers) == {1, 2}

    def test_duplicates_are_answered_with_their_first_offsets(self, harness: LogHarness) -> None:
        log = harness.open()
        for sequence in range(6):
            harness.produce(log, [b"value"], producer_id=1, sequence=sequence)
        first = harness.produce(log, THREE, producer_id=1, sequence=6)
        assert (first.offsets, first.is_duplicate) == (range(6, 9), False)
        for values, sequence, offsets in (
            (THREE, 6, range(6, 9)),
            ([b"value"], 5, range(5, 6)),
            ([b"value"], 2, range(2, 3)),
        ):
            again = harness.produce(log, values, producer_id=1, sequence=sequence)
            assert (again.offsets, again.is_duplicate) == (offsets, True)
        for values, sequence in ((THREE[:2], 7), (THREE[:2], 6), ([b"value"], 1), ([b"value"], 10)):
            with pytest.raises(OutOfOrderSequenceError):
                harness.produce(log, values, producer_id=1, sequence=sequence)
        for is_duplicate in (False, True):
            last = harness.produce(log, [b"value"], producer_id=1, sequence=9)
            assert (last.offsets, last.is_duplicate) == (range(9, 10), is_duplicate)
        assert log.end_offset == 10
        assert read(log, 0) == [0, 1, 2, 3, 4, 5, 6, 9]


class TestVerification:
    """Verification of transactions (KIP-890)."""

    def content(self, sequence: int) -> bytearray:
        return bytearray(
            batch(
                0, THREE, timestamp=NOW, attributes=TRANSACTIONAL, producer_id=23, producer_epoch=1, sequence=sequence
            )
        )

    @pytest.mark.parametrize(("supports_epoch_bump", "sequence"), [(False, 4), (False, 0), (True, 0)])
    def test_once_it_is_asked_for_nothing_goes_without(
        self, harness: LogHarness, supports_epoch_bump: bool, sequence: int
    ) -> None:
        log = harness.open(verifies_transactions=True)
        for guard in (NO_GUARD, VerificationGuard()):
            with pytest.raises(InvalidTransactionStateError):
                log.append_as_leader(self.content(sequence), leader_epoch=0, guard=guard)
        assert not log.producers
        assert log._state.producers.state.verifications.guard(23) == NO_GUARD
        guard = log.start_verification(23, sequence, 1, supports_epoch_bump=supports_epoch_bump)
        assert guard != NO_GUARD
        log.append_as_leader(self.content(sequence), leader_epoch=0, guard=guard)
        assert log.producers[23].transaction_first_offset == 0
        assert log._state.producers.state.verifications.guard(23) == NO_GUARD
        log.append_as_leader(self.content(sequence + 3), leader_epoch=0)
        assert log.end_offset == 6

    def test_where_it_is_not_asked_for_an_append_ends_what_was_pending(self, harness: LogHarness) -> None:
        log = harness.open(verifies_transactions=False)
        guard = log.start_verification(23, 0, 1)
        assert guard != NO_GUARD
        assert log.start_verification(23, 0, 1) == guard, "it waits"
        log.append_as_leader(self.content(0), leader_epoch=0)
        assert log.producers[23].transaction_first_offset == 0
        assert log._state.producers.state.verifications.guard(23) == NO_GUARD


class TestFailures:
    def test_an_aborted_transaction_that_cannot_be_indexed(self, harness: LogHarness) -> None:
        """The marker is in the log, but the transaction stays open for readers until recovery has indexed it."""
        log = harness.open()
        harness.produce(log, [b"x"] * 10, producer_id=1, sequence=0, attributes=TRANSACTIONAL)
        index = harness.directory / f"{0:020d}.txnindex"
        index.mkdir()
        for _ in range(2):
            with pytest.raises(StorageError):
                end_transaction(log, commit=False, producer_id=1, producer_epoch=0, coordinator_epoch=1)
            assert log.end_offset == 11
            assert log.offsets().last_stable.message_offset == 0
        with pytest.raises(StorageError, match="refuses writes because an earlier one failed"):
            log.update_high_watermark(11)
        assert log.offsets().last_stable.message_offset == 0
        log.close()
        index.rmdir()

        again = harness.open(clean=False)
        assert again.end_offset == 11
        assert list(TransactionIndexReader(index.read_bytes(), 0)) == [AbortedTxn(1, 0, 10, 11)]
        again.update_high_watermark(11)
        assert again.offsets().last_stable.message_offset == 11


class TestFlush:
    def test_of_an_empty_active_segment(self, harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        """A flush after a roll syncs only the older segments. A forced flush syncs the new, empty files too."""
        log = harness.open()
        harness.add(log)
        log.roll()
        synced: list[int] = []
        sync = LogSegment.sync

        def seen(segment: LogSegment) -> None:
            if segment.path.parent == log.directory:
                synced.append(segment.base_offset)
            sync(segment)

        monkeypatch.setattr(LogSegment, "sync", seen)
        assert log.flush(1) == 1
        assert synced == [0]
        assert log.flush() == 1
        assert synced == [0]
        assert log.flush(force=True) == 1
        assert synced == [0, 1]
        assert log.flush(force=True) == 1
        assert synced == [0, 1], "there is nothing new"
        assert harness.files(".log") == harness.files(".index") == [0, 1]

    def test_of_nothing(self, harness: LogHarness, monkeypatch: pytest.MonkeyPatch) -> None:
        """Nothing is written or counted, and the time of the last flush does not change."""
        log = harness.open()
        harness.add(log)
        log.flush()
        before = replace(log.counters)
        harness.clock.sleep_ms(1000)
        synced: list[Path] = []

        def note(_: LocalFileSystem, path: Path) -> None:
            if path == log.directory:
                synced.append(path)

        monkeypatch.setattr(LocalFileSystem, "sync_dir", note)
        assert log.flush() == log.flush(1) == 1
        assert (synced, log.counters) == ([], before)
        harness.add(log)
        log.flush()
        assert log.counters.last_flush_ms == before.last_flush_ms + 1000
        assert synced
