"""Producers and transactions in a replicated log: sequences, verification, expiry, and the last stable offset."""

from __future__ import annotations

import sys
import threading
from typing import Any

import pytest

from log_maker import CONTROL, TRANSACTIONAL, batch, data, marker, plain
from storage.log.log_harness import LogHarness, fetch, lead, read
from tidelog.model import (
    InvalidProducerEpochError,
    InvalidTransactionStateError,
    Isolation,
    LogOffsetMetadata,
    OutOfOrderSequenceError,
)
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.producer import NO_GUARD, AppendOrigin, VerificationGuard

ORIGINS = [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR]
PRODUCER = 23


def idempotent(sequence: int, count: int = 1, *, producer: int = 1, epoch: int = 0, **fields: Any) -> bytes:
    return batch(0, [b"x"] * count, producer_id=producer, producer_epoch=epoch, sequence=sequence, **fields)


def end(log: PartitionLog, epoch: int = 0, *, committed: bool = True, producer: int = PRODUCER) -> None:
    """Append the marker that ends the producer's transaction."""
    content = batch(
        0,
        [bytes(6)],
        key=b"\0\0\0" + bytes([committed]),
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer,
        producer_epoch=epoch,
        sequence=-1,
    )
    lead(log, content, origin=AppendOrigin.COORDINATOR)


class TestSequences:
    def test_one_is_left_out(self, harness: LogHarness) -> None:
        log = harness.open()
        lead(log, idempotent(0))
        with pytest.raises(OutOfOrderSequenceError):
            lead(log, idempotent(2))
        assert log.end_offset == 1
        assert lead(log, idempotent(1)) == range(1, 2)

    def test_an_older_epoch(self, harness: LogHarness) -> None:
        log = harness.open()
        lead(log, idempotent(0, epoch=1))
        with pytest.raises(InvalidProducerEpochError):
            lead(log, idempotent(1, epoch=0))
        assert (log.end_offset, log.producers[1].last_sequence) == (1, 0)


class TestExpiry:
    def test_after_so_long_without_a_batch(self, harness: LogHarness) -> None:
        log = harness.open(producer_id_expiration_ms=200)
        lead(log, idempotent(0, timestamp=harness.clock.now))
        for left in ([1], []):
            harness.clock.now += 100
            assert log.remove_expired_producers() == 1 - len(left)
            assert list(log.producers) == left

    def test_one_that_writes_in_between_stays(self, harness: LogHarness) -> None:
        log = harness.open(producer_id_expiration_ms=200)
        for sequence in range(4):
            lead(log, idempotent(sequence, timestamp=harness.clock.now))
            harness.clock.now += 150
            assert log.remove_expired_producers() == 0

    def test_the_deletion_of_its_batches_is_none(self, harness: LogHarness) -> None:
        size = len(idempotent(0))
        log = harness.open(segment_bytes=size, retention_bytes=2 * size)
        lead(log, idempotent(0, producer=1))
        lead(log, idempotent(0, producer=2))
        lead(log, idempotent(1, producer=2))
        log.update_high_watermark(3)
        log.delete_old_segments()
        assert (log.base_offsets, sorted(log.producers)) == ([1, 2], [1, 2])


class TestVerification:
    @pytest.mark.parametrize("bumps_epoch", [False, True])
    @pytest.mark.parametrize("origin", ORIGINS)
    def test_over_two_transactions(self, harness: LogHarness, origin: AppendOrigin, bumps_epoch: bool) -> None:
        """Transactions of version 1 and 2: a batch outside a transaction keeps the guard, and one inside uses it up."""
        log = harness.open(verifies_transactions=True)
        is_client = origin is AppendOrigin.CLIENT
        first = 3 if is_client and not bumps_epoch else 0
        following = first + 2 if is_client else 0

        def start(sequence: int, epoch: int) -> VerificationGuard:
            return log.start_verification(PRODUCER, sequence, epoch, supports_epoch_bump=bumps_epoch)

        guard = start(following, 1)
        assert guard != NO_GUARD
        lead(log, idempotent(first, 2, producer=PRODUCER, epoch=1), origin=origin)
        assert log.producers[PRODUCER].transaction_first_offset is None
        assert start(following, 1) == guard

        begin = idempotent(following, 2, producer=PRODUCER, epoch=1, attributes=TRANSACTIONAL)
        for wrong in (NO_GUARD, VerificationGuard()):
            with pytest.raises(InvalidTransactionStateError):
                lead(log, begin, origin=origin, guard=wrong)
        assert lead(log, begin, origin=origin, guard=guard) == range(2, 4)
        assert log.producers[PRODUCER].transaction_first_offset == 2
        assert start(following, 1) == NO_GUARD, "it is open, nothing is left to verify"

        epoch = 2 if bumps_epoch else 1
        end(log, epoch)
        assert log.producers[PRODUCER].transaction_first_offset is None
        again = start(0 if bumps_epoch else following + 2, epoch)
        assert again not in (NO_GUARD, guard)


class TestReplicatedTransactions:
    def test_several_producers_in_one_fetch(self, harness: LogHarness) -> None:
        """The first unstable offset moves with the high watermark, from transaction to transaction."""
        log = harness.open(index_interval_bytes=0)
        parts = [
            data(0, 5, producer_id=1),
            plain(5, 3),
            data(8, 2, producer_id=2),
            data(10, 4, producer_id=1),
            data(14, 3, producer_id=3),
            plain(17, 2),
            data(19, 10, producer_id=1),
            marker(29, False, producer_id=1),
            data(30, 6, producer_id=2),
            data(36, 3, producer_id=4),
            plain(39, 10),
            data(49, 9, producer_id=3),
            marker(58, True, producer_id=3),
            data(59, 8, producer_id=4),
            data(67, 7, producer_id=2),
            marker(74, False, producer_id=2),
            plain(75, 10),
            data(85, 4, producer_id=4),
            marker(89, True, producer_id=4),
        ]
        log.append_as_follower(b"".join(parts), 0)
        assert log.offsets().last_stable.message_offset == 0
        for watermark, stable, parts_before in ((8, 0, 0), (30, 8, 2), (59, 8, 2), (75, 36, 9), (90, 90, len(parts))):
            log.update_high_watermark(watermark)
            position = sum(map(len, parts[:parts_before]))
            assert log.offsets().last_stable == LogOffsetMetadata(stable, 0, position)
            if stable:
                assert read(log, 0, Isolation.READ_COMMITTED)[-1] < stable
        aborted = fetch(log, 0, Isolation.READ_COMMITTED).aborted
        assert aborted is not None
        assert [tuple(one) for one in aborted] == [(1, 0, 29, 8), (2, 8, 74, 36)]
        assert all(entry.transaction_first_offset is None for entry in log.producers.values())

    def test_each_batch_keeps_its_producer(self, harness: LogHarness) -> None:
        log = harness.open()
        content = b"".join(
            batch(offset, [b"x"], producer_id=offset + 1, producer_epoch=3, sequence=offset) for offset in range(4)
        )
        log.append_as_follower(content, 0)
        log.flush()
        assert fetch(log, 0).data() == content
        known = {entry.producer_id: (entry.producer_epoch, entry.last_sequence) for entry in log.producers.values()}
        assert known == {1: (3, 0), 2: (3, 1), 3: (3, 2), 4: (3, 3)}

    def test_a_follower_takes_what_a_leader_would_not(self, harness: LogHarness) -> None:
        """A duplicate sequence and a gap are accepted, because the leader has accepted them."""
        log = harness.open()
        steps = [(1, 0), (2, 0), (1, 1), (2, 1), (1, 1), (2, 7)]
        parts = [batch(at, [b"x"], producer_id=who, sequence=sequence) for at, (who, sequence) in enumerate(steps)]
        log.append_as_follower(b"".join(parts), 0)
        assert (log.end_offset, read(log, 0)) == (6, list(range(6)))
        assert log.producers[2].last_sequence == 7


class TestReadersBesideWriters:
    @pytest.mark.parametrize("is_sole_replica", [False, True])
    def test_no_read_sees_an_open_transaction(self, harness: LogHarness, is_sole_replica: bool) -> None:
        """The last stable offset stays even as the high watermark moves: data has even offsets, markers odd ones."""
        log = harness.open(is_sole_replica=is_sole_replica)
        done = threading.Event()
        failures: list[object] = []

        def replicate() -> None:
            while not done.is_set():
                log.update_high_watermark(log.end_offset)

        def look() -> None:
            while not done.is_set():
                stable = log.offsets().last_stable.message_offset
                if stable % 2:
                    failures.append(stable)

        threads = [threading.Thread(target=work) for work in (look, look, *([] if is_sole_replica else [replicate]))]
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            for thread in threads:
                thread.start()
            for number in range(60):
                begin = idempotent(number, producer=PRODUCER, attributes=TRANSACTIONAL)
                at = lead(log, begin).start
                if fetch(log, at, Isolation.READ_COMMITTED).data():
                    failures.append(at)
                end(log, committed=False)
        finally:
            done.set()
            for thread in threads:
                thread.join()
            sys.setswitchinterval(interval)
        assert failures == []
        log.update_high_watermark(120)
        assert log.offsets().last_stable.message_offset == 120

    def test_what_holds_readers_back_is_known_before_the_high_watermark_moves(self, harness: LogHarness) -> None:
        """The high watermark of a log without other replicas moves with each append."""
        log = harness.open(is_sole_replica=True)
        seen: list[int] = []

        def watch(_high_watermark: int) -> None:
            seen.append(log.offsets().last_stable.message_offset)

        log._state.offsets.on_high_watermark = watch
        lead(log, plain(0, 3))
        lead(log, data(0, 2, producer_id=PRODUCER))
        lead(log, plain(0, 3))
        end(log)
        lead(log, plain(0, 3))
        assert seen == sorted(seen)
        assert set(seen) <= {3, 9, 12}

    def test_a_transaction_that_begins_between_two_looks(self, harness: LogHarness) -> None:
        """A transaction begins, and the high watermark passes it, while a reader computes the last stable offset."""
        log = harness.open()
        lead(log, plain(0, 3))
        log.update_high_watermark(3)
        offsets = log._state.offsets
        waiting = [data(0, 2, producer_id=PRODUCER)]

        class AfterAnAppend:
            """The offsets for the reader, who is interrupted before the first look at the high watermark."""

            @property
            def high_watermark(self) -> LogOffsetMetadata:
                if waiting:
                    log._state.offsets = offsets
                    lead(log, waiting.pop())
                    log.update_high_watermark(5)
                return offsets.high_watermark

        log._state.offsets = AfterAnAppend()  # type: ignore[assignment]
        assert log._state.last_stable().message_offset == 3
        assert not waiting
