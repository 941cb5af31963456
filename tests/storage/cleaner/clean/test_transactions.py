"""Transactions and producers in a cleaned log: markers, aborted data, and the state of each last producer batch."""

from __future__ import annotations

import pytest

from log_maker import CONTROL, TRANSACTIONAL, batch
from storage.cleaner.clean_home import (
    DELETE_RETENTION_MS,
    CleanHome,
    batches,
    keys,
    last_offsets,
    last_sequences,
    offsets,
    some_map,
)
from tidelog.model import CorruptRecordError
from tidelog.storage.index import AbortedTxn
from tidelog.storage.log.partition_log import PartitionLog

P1, P2, P3, P4 = 1, 2, 3, 4


def aborted(log: PartitionLog) -> list[AbortedTxn]:
    return [*log.aborted_transactions(0, log.end_offset)]


def no_transaction_is_open(log: PartitionLog) -> bool:
    return all(entry.transaction_first_offset is None for entry in log.producers.values())


def reopened(home: CleanHome, log: PartitionLog) -> PartitionLog:
    """Close the log, delete its snapshots and recover all of it, so that the producers come from the batches."""
    log.close()
    for path in home.directory.glob("*.snapshot"):
        path.unlink()
    return home.open(clean=False)


class TestProducers:
    def test_duplicates_are_known_by_what_is_left(self, home: CleanHome) -> None:
        log = home.open(segment_bytes=2048)
        sets = {P1: [1, 2, 3], P2: [3, 1, 4], P3: [1, 4]}
        for producer_id, of_batch in sets.items():
            home.write(log, producer_id, of_batch)
        log.roll()
        home.clean(log)
        assert last_offsets(log) == [2, 5, 7]
        assert last_sequences(log) == {P1: 2, P2: 2, P3: 1}
        assert keys(log) == [2, 3, 1, 4]
        assert offsets(log) == [1, 3, 6, 7]
        log = reopened(home, log)
        for producer_id, first, last in ((P1, 0, 2), (P3, 6, 7), (P2, 3, 5)):
            result = home.write(log, producer_id, sets[producer_id], base_sequence=0)
            assert (result.first_offset, result.last_offset) == (first, last)
        home.write(log, P4, [2])
        log.roll()
        home.clean(log)
        assert last_sequences(log) == {P1: 2, P2: 2, P3: 1, P4: 0}
        assert last_offsets(log) == [2, 5, 7, 8]
        assert keys(log) == [3, 1, 4, 2]
        assert offsets(log) == [3, 6, 7, 8]
        log = reopened(home, log)
        again = home.write(log, P1, sets[P1], base_sequence=0)
        assert (again.first_offset, again.last_offset) == (0, 2)

    def test_the_batch_with_the_last_sequence_stays(self, home: CleanHome) -> None:
        log = home.open()
        home.put(log, (0, 0))
        for producer_id in (P1, P2, P3):
            home.write(log, producer_id, [0])
        home.write(log, P2, [1])
        log.roll()
        home.clean(log)
        assert last_offsets(log) == [1, 3, 4]
        assert last_sequences(log) == {P1: 0, P2: 1, P3: 0}
        assert keys(log) == [0, 1]
        assert offsets(log) == [3, 4]

    def test_also_of_an_aborted_transaction(self, home: CleanHome) -> None:
        log = home.open()
        home.transact(log, P1, [1])
        home.transact(log, P1, [2, 3])
        home.abort(log, P1)
        log.roll()
        home.clean(log)
        assert last_offsets(log) == [2, 3]
        assert last_sequences(log) == {P1: 2}
        assert keys(log) == []
        assert offsets(log) == [3]
        home.transact(log, P1, [1, 5])
        log.roll()
        home.clean(log)
        assert last_offsets(log) == [3, 5]
        assert last_sequences(log) == {P1: 4}
        assert keys(log) == [1, 5]
        assert offsets(log) == [3, 4, 5]

    def test_producers_are_the_same_after_loading(self, home: CleanHome) -> None:
        log = home.open()
        for number in range(20):
            home.write(log, number % 4, [number % 3])
        home.transact(log, P1, [7])
        home.abort(log, P1)
        log.roll()
        home.clean(log)
        before = {entry.producer_id: (entry.last_sequence, entry.producer_epoch) for entry in log.producers.values()}
        log = reopened(home, log)
        after = {entry.producer_id: (entry.last_sequence, entry.producer_epoch) for entry in log.producers.values()}
        assert after == before


class TestAborted:
    def test_their_data_goes_their_markers_stay(self, home: CleanHome) -> None:
        log = home.open(segment_bytes=2048)
        home.transact(log, P1, [1, 2])
        home.transact(log, P2, [2, 3])
        home.transact(log, P1, [3, 4])
        home.abort(log, P1)
        home.commit(log, P2)
        home.transact(log, P1, [2])
        home.commit(log, P1)
        before = aborted(log)
        log.roll()
        home.clean(log)
        assert keys(log) == [3, 2]
        assert offsets(log) == [3, 6, 7, 8, 9]
        assert aborted(log) == before
        assert len(before) == 1

    def test_over_several_cleans_of_a_segment(self, home: CleanHome) -> None:
        """The offset map holds three keys, so each clean covers only a part of the log."""
        log = home.open(segment_bytes=4096, delete_retention_ms=50_000)
        home.transact(log, P1, [1, 2])
        home.transact(log, P2, [2, 3])
        home.transact(log, P1, [3, 4])
        home.commit(log, P1)
        home.commit(log, P2)
        home.transact(log, P1, [2, 3])
        home.abort(log, P1)
        home.transact(log, P2, [4, 5])
        home.transact(log, P1, [5, 6])
        home.commit(log, P1)
        home.abort(log, P2)
        home.transact(log, P2, [6, 7])
        home.commit(log, P2)
        log.roll()
        both = [AbortedTxn(P1, 8, 10, 11), AbortedTxn(P2, 11, 16, 17)]
        assert no_transaction_is_open(log)
        assert aborted(log) == both
        bases = [0, 2, 4, 6, 7, 10, 13, 15, 16, 17, 19]

        def clean(first_dirty: int) -> int:
            dirty = home.clean(log, first_dirty, offset_map=some_map(4)).next_dirty_offset
            assert no_transaction_is_open(log)
            return dirty

        dirty = clean(0)
        assert dirty == 4
        assert batches(log).base_offset.tolist() == bases
        assert offsets(log) == [0, 2, 3, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19]
        assert aborted(log) == both
        dirty = clean(dirty)
        assert dirty == 14
        assert batches(log).base_offset.tolist() == bases
        assert offsets(log) == [0, 2, 4, 5, 6, 7, 10, 13, 14, 15, 16, 17, 18, 19]
        assert aborted(log) == []
        home.clock.now += 50_000
        assert clean(dirty) == 20
        assert batches(log).base_offset.tolist() == [0, 2, 4, 6, 7, 13, 15, 17, 19]
        assert offsets(log) == [0, 2, 4, 5, 6, 7, 13, 15, 17, 18, 19]
        assert aborted(log) == []

    def test_the_marker_goes_after_its_data(self, home: CleanHome) -> None:
        log = home.open()
        home.transact(log, P1, [1])
        home.transact(log, P1, [2, 3])
        home.abort(log, P1)
        home.transact(log, P1, [3])
        home.commit(log, P1)
        log.roll()
        dirty = home.clean(log).next_dirty_offset
        assert keys(log) == [3]
        assert offsets(log) == [3, 4, 5]
        further(home, log)
        home.clean_twice(log, dirty)
        assert keys(log)[:1] == [3]
        assert offsets(log)[:2] == [4, 5]

    def test_the_marker_stays_while_an_empty_batch_does(self, home: CleanHome) -> None:
        log = home.open()
        home.transact(log, P1, [2, 3])
        home.abort(log, P1)
        log.roll()
        indexed = [(P1, 0, 2)]

        def entries() -> list[tuple[int, int, int]]:
            return [entry[:3] for entry in log.aborted_transactions(0, 100)]

        assert entries() == indexed
        home.clean(log)
        for _ in range(2):
            assert entries() == indexed
            assert keys(log) == []
            assert offsets(log) == [2]
            assert last_offsets(log) == [1, 2]
            home.clock.now += DELETE_RETENTION_MS + 1
            home.clean(log)
        home.transact(log, P1, [1])
        log.roll()
        home.clean(log)
        assert entries() == indexed
        assert keys(log) == [1]
        assert offsets(log) == last_offsets(log) == [2, 3]
        home.clean_twice(log)
        assert keys(log) == [1]
        assert offsets(log) == last_offsets(log) == [3]
        assert entries() == []

    def test_over_two_segments(self, home: CleanHome) -> None:
        log = home.open()
        home.transact(log, P1, [1])
        log.roll()
        home.abort(log, P1)
        log.roll()
        for _ in range(2):
            home.clean(log)
            assert offsets(log) == [1]
            assert last_offsets(log) == [0, 1]
            home.clock.now += 2 * DELETE_RETENTION_MS

    def test_over_segments_and_groups(self, home: CleanHome) -> None:
        log = home.open(segment_bytes=400)
        home.transact(log, P1, [1, 2])
        home.transact(log, P3, [2, 3])
        home.transact(log, P2, [3, 4])
        log.roll()
        end = log.end_offset
        home.transact(log, P2, [5, 6])
        home.transact(log, P3, [6, 7])
        home.transact(log, P1, [7, 8])
        home.abort(log, P2)
        home.transact(log, P3, [8, 9])
        home.commit(log, P3)
        home.transact(log, P1, [9, 10])
        home.abort(log, P1)
        dirty = home.clean(log, 0, end).next_dirty_offset
        assert keys(log) == [2, 3, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10]
        log.roll()
        home.transact(log, P2, [11])
        home.transact(log, P1, [12])
        home.clean(log, dirty)
        assert keys(log) == [2, 3, 6, 7, 8, 9, 11, 12]


class TestCommitted:
    def test_the_marker_gets_a_delete_horizon_and_goes_when_that_has_come(self, home: CleanHome) -> None:
        """The first clean without its data sets the horizon to ``delete.retention.ms`` from then (KIP-534)."""
        log = home.open()
        for _ in range(2):
            home.transact(log, P1, [1])
            home.commit(log, P1)
        home.put(log, (2, 2))
        log.roll()

        def clean() -> tuple[list[int], list[int]]:
            """Clean, and return the remaining offsets and the delete horizons in ms."""
            home.clean(log)
            table = batches(log)
            return offsets(log), table.base_timestamp[table.has_delete_horizon].tolist()

        assert clean() == ([1, 2, 3, 4], []), "this clean removes the data, so it still found some"
        home.clock.now += 5_000
        horizon = home.clock.now + DELETE_RETENTION_MS
        assert clean() == ([1, 2, 3, 4], [horizon]), "the second marker's data is there"
        home.clock.now = horizon - 1
        assert clean() == ([1, 2, 3, 4], [horizon])
        home.clock.now = horizon
        assert clean() == ([2, 3, 4], [])

    def test_the_marker_goes_when_it_is_alone_and_its_horizon_has_passed(self, home: CleanHome) -> None:
        log = home.open()
        home.transact(log, P1, [1])
        home.transact(log, P1, [2, 3])
        home.commit(log, P1)
        home.transact(log, P1, [2])
        home.commit(log, P1)
        log.roll()
        dirty = home.clean(log).next_dirty_offset
        assert keys(log) == [1, 3, 2]
        assert offsets(log) == [0, 2, 3, 4, 5]
        home.transact(log, P1, [1, 3])
        home.commit(log, P1)
        log.roll()
        dirty = home.clean(log, dirty).next_dirty_offset
        assert keys(log) == [2, 1, 3]
        assert offsets(log) == [3, 4, 5, 6, 7, 8]
        dirty = further(home, log, dirty)
        assert offsets(log)[:6] == [3, 4, 5, 6, 7, 8]
        home.clock.now += DELETE_RETENTION_MS
        further(home, log, dirty)
        assert offsets(log)[:5] == [4, 5, 6, 7, 8]

    def test_the_marker_stays_while_an_empty_batch_does(self, home: CleanHome) -> None:
        log = home.open()
        home.transact(log, P1, [2, 3])
        log.roll()
        home.transact(log, P2, [2, 3])
        home.commit(log, P2)
        log.roll()
        home.put(log, (2, 2), (3, 3))
        home.commit(log, P1)
        log.roll()
        for _ in range(2):
            home.clean(log)
            assert keys(log) == [2, 3]
            assert offsets(log) == [4, 5, 6, 7]
            assert last_offsets(log) == [1, 3, 4, 5, 6, 7]
        home.transact(log, P2, [1])
        home.commit(log, P2)
        log.roll()
        home.clean(log)
        assert keys(log) == [2, 3, 1]
        assert offsets(log) == [4, 5, 6, 7, 8, 9]
        assert last_offsets(log) == [1, 4, 5, 6, 7, 8, 9]
        home.clean_twice(log)
        assert keys(log) == [2, 3, 1]
        assert offsets(log) == [5, 6, 7, 8, 9]
        assert last_offsets(log) == [1, 5, 6, 7, 8, 9]

    def test_an_empty_control_batch(self, home: CleanHome) -> None:
        """A producer's only marker becomes a batch without records, and later cleans keep that batch."""
        log = home.open()
        home.commit(log, P1)
        home.put(log, (2, 2), (3, 3))
        log.roll()
        home.clean_twice(log)
        for _ in range(2):
            assert keys(log) == [2, 3]
            assert offsets(log) == [1, 2]
            assert last_offsets(log) == [0, 1, 2]
            assert batches(log).is_control.tolist() == [True, False, False]
            home.clock.now += 2 * DELETE_RETENTION_MS
            home.clean(log)

    def test_over_two_segments(self, home: CleanHome) -> None:
        log = home.open()
        home.transact(log, P1, [1])
        log.roll()
        home.commit(log, P1)
        log.roll()
        home.clean_twice(log)
        assert offsets(log) == last_offsets(log) == [0, 1]

    def test_sequences_that_begin_anew_with_each_transaction(self, home: CleanHome) -> None:
        """The group coordinator writes its transactional batches in this way."""
        log = home.open(segment_bytes=2048)
        for key in (1, 2):
            log.append_as_follower(keyed(home, key, producer_id=P1, base_offset=log.end_offset), 0)
            home.commit(log, P1)
        home.put(log, (1, 1), (2, 1))
        log.roll()
        home.clean(log)
        assert offsets(log) == [1, 3, 4, 5]
        assert last_offsets(log) == [1, 2, 3, 4, 5]
        home.clean_twice(log)
        assert offsets(log) == [3, 4, 5]
        assert last_offsets(log) == [2, 3, 4, 5]

    def test_batches_that_are_deleted_unseen(self, home: CleanHome) -> None:
        """A chunk without a remaining batch does not end the segment."""
        log = home.open()
        home.transact(log, P1, [1])
        home.abort(log, P1)
        home.transact(log, P1, [2])
        home.transact(log, P1, [2])
        home.commit(log, P1)
        log.roll()
        home.clean(log, chunk_bytes=100)
        assert keys(log) == [2]
        assert offsets(log) == [1, 3, 4]
        home.clean(log, chunk_bytes=100)
        home.clock.now += DELETE_RETENTION_MS + 1
        home.clean(log, chunk_bytes=100)
        assert keys(log) == [2]
        assert offsets(log) == [3, 4]


class TestMarkers:
    def test_a_key_that_is_the_same_as_a_markers(self, home: CleanHome) -> None:
        log = home.open()
        home.transact(log, P1, [1])
        home.commit(log, P1)
        made = keyed(home, b"\0\0\0\1", producer_id=P2)
        log.append_as_leader(bytearray(made), leader_epoch=5)
        home.commit(log, P2)
        log.roll()
        home.clean(log)
        assert last_offsets(log) == offsets(log) == [0, 1, 2, 3]

    def test_a_control_batch_that_holds_none(self, home: CleanHome) -> None:
        """The error names the file, the offset and the position."""
        log = home.open()
        home.commit(log, P1)
        log.roll()
        wrong = batch(0, [bytes(6)], key=b"\0\0\0\7", attributes=CONTROL | TRANSACTIONAL, producer_id=P1)
        log.segments[0].path.write_bytes(wrong)
        with pytest.raises(CorruptRecordError, match="ends with COMMIT or ABORT") as caught:
            home.clean(log)
        assert (caught.value.offset, caught.value.position) == (0, 0)
        assert caught.value.path == str(log.segments[0].path)


def further(home: CleanHome, log: PartitionLog, dirty: int = 0) -> int:
    """Append one record, clean once more, and return the next dirty offset."""
    home.put(log, (1000 + log.end_offset, 0))
    log.roll()
    return home.clean(log, dirty).next_dirty_offset


def keyed(home: CleanHome, key: int | bytes, *, producer_id: int, base_offset: int = 0) -> bytes:
    name = b"%d" % key if isinstance(key, int) else key
    return batch(
        base_offset, [b"x"], key=name, attributes=TRANSACTIONAL, producer_id=producer_id, timestamp=home.clock.now
    )
