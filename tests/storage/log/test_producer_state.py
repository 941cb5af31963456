"""The producer state of one log with its snapshot files: written, loaded, truncated, and lost."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from log_maker import batch, plain, write_segment
from tidelog.kernel import scan_batches
from tidelog.model import InvalidProducerEpochError, LogOffsetMetadata, TransactionCoordinatorFencedError
from tidelog.record.attributes import CONTROL_FLAG, TRANSACTIONAL_FLAG
from tidelog.record.build import BatchFields, build_empty_batch
from tidelog.record.control import EndTransactionMarker
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.load.listing import list_partition
from tidelog.storage.log.load.loader import LoadRequest, load_log
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.state.log_segments import LogSegments
from tidelog.storage.log.state.producer_state import LogProducerState, SnapshotFiles
from tidelog.storage.producer import LATE_TRANSACTION_BUFFER_MS, AppendOrigin, MarkerRecord, ProducerEntry
from tidelog.storage.segment.segment import LogSegment

ID = 7
EXPIRATION_MS = 60_000
TIMEOUT_MS = 300_000
LATE_MS = TIMEOUT_MS + LATE_TRANSACTION_BUFFER_MS


@dataclass
class Batch:
    base_sequence: int
    base_offset: int
    producer_epoch: int
    max_timestamp: int
    attributes: int
    producer_id: int

    @property
    def last_offset(self) -> int:
        return self.base_offset


def without_records(content: bytes, *, last_offset: int) -> bytes:
    """Raise the last offset, as if compaction had removed later records."""
    base_offset = int.from_bytes(content[:8], "big")
    return content[:23] + struct.pack(">i", last_offset - base_offset) + content[27:]


def build_empty(base_offset: int, last_offset: int) -> bytes:
    fields = BatchFields(producer_id=ID, producer_epoch=0, base_sequence=0)
    return bytes(build_empty_batch(base_offset=base_offset, last_offset=last_offset, max_timestamp=1, fields=fields))


class Producers:
    """The producers of a log with made-up batches: appends at any offset, without a ``.log``."""

    def __init__(self, directory: Path, now: int) -> None:
        self._directory = directory
        self._now = now
        snapshots = SnapshotFiles(LOCAL, directory, list_partition(LOCAL, directory).snapshots)
        self.log = LogProducerState(LOCAL, directory, snapshots, expiration_ms=EXPIRATION_MS)
        self.state = self.log.state

    def reload(self, log_start: int, end: int) -> None:
        """Rebuild as after a truncation to ``end``, when only snapshots remain of the appended batches."""
        segments: LogSegments[LogSegment] = LogSegments(())
        self.log.rebuild(segments, log_start, end, after_clean_shutdown=False, now_ms=self._now)

    def reopened(self, log_start: int, end: int, *, now: int = 1) -> Producers:
        again = Producers(self._directory, now)
        again.reload(log_start, end)
        return again

    def data(
        self,
        sequence: int,
        at: int,
        *,
        now: int = 1,
        epoch: int = 0,
        transactional: bool = False,
        producer_id: int = ID,
        origin: AppendOrigin = AppendOrigin.CLIENT,
    ) -> None:
        info = self.state.prepare_update(producer_id, origin)
        info.append_data(Batch(sequence, at, epoch, now, TRANSACTIONAL_FLAG if transactional else 0, producer_id))
        self.state.update(info)
        self.state.map_end_offset = at + 1

    def marker(self, at: int, *, now: int = 1, epoch: int = 0, coordinator: int = 0, producer_id: int = ID) -> None:
        info = self.state.prepare_update(producer_id, AppendOrigin.COORDINATOR)
        record = MarkerRecord(EndTransactionMarker(committed=True, coordinator_epoch=coordinator), now)
        completed = info.append_marker(
            Batch(-1, at, epoch, now, TRANSACTIONAL_FLAG | CONTROL_FLAG, producer_id), record
        )
        self.state.update(info)
        if completed is not None:
            self.state.complete(completed)
        self.state.map_end_offset = at + 1

    def snapshot(self) -> int | None:
        return self.log.take_snapshot()

    def is_late(self, now: int) -> bool:
        return self.state.has_late_transaction(now, TIMEOUT_MS)

    @property
    def entry(self) -> ProducerEntry:
        return self.state.producers[ID]

    @property
    def first_unstable(self) -> LogOffsetMetadata | None:
        return self.state.first_unstable_offset()

    @property
    def on_disk(self) -> list[int]:
        return sorted(int(path.name.removesuffix(".snapshot")) for path in self._directory.iterdir())


@pytest.fixture
def producers(tmp_path: Path) -> Producers:
    return Producers(tmp_path, now=1)


class TestSnapshots:
    def test_one_file_at_the_end_of_what_was_appended(self, producers: Producers, tmp_path: Path) -> None:
        assert (producers.log.snapshots.latest, producers.log.snapshots.offsets) == (None, [])
        producers.data(0, 0)
        producers.data(1, 1)
        assert producers.snapshot() == 2
        (file,) = tmp_path.iterdir()
        assert file.name == f"{2:020d}.snapshot"
        assert file.read_bytes() == producers.state.snapshot() == producers.log.snapshots.read(2)

    def test_none_where_nothing_changed(self, producers: Producers) -> None:
        producers.data(0, 0)
        assert (producers.snapshot(), producers.snapshot()) == (1, None)
        assert producers.on_disk == [1]

    def test_those_outside_of_the_log_go(self, producers: Producers) -> None:
        """A snapshot at the log start equals an empty state and goes. A snapshot at the log end is kept."""
        for number in range(5):
            producers.data(number, number)
            producers.snapshot()
        producers.reload(1, 3)
        assert producers.on_disk == producers.log.snapshots.offsets == [2, 3]
        assert producers.entry.last_sequence == 2
        for log_start, left in ((2, [3]), (3, [])):
            producers.log.snapshots.remove_outside(log_start, 9)
            assert producers.on_disk == left

    def test_a_log_that_begins_anew_has_none(self, producers: Producers) -> None:
        for number in range(2):
            producers.data(number, number)
            producers.snapshot()
        producers.log.snapshots.remove_all()
        producers.state.start_at(0)
        assert (producers.on_disk, producers.state.is_empty) == ([], True)
        producers.data(0, 0)
        assert producers.snapshot() == 1
        assert producers.on_disk == [1]

    def test_they_are_found_again_by_their_names(self, producers: Producers, tmp_path: Path) -> None:
        producers.data(1, 1)
        producers.data(2, 2)
        producers.snapshot()
        path = producers.log.snapshots.path(3)
        older = path.read_bytes()
        producers.data(3, 3)
        producers.data(4, 4)
        producers.snapshot()
        producers.reload(3, 5)
        assert producers.on_disk == [5]
        producers.log.snapshots.remove_all()
        path.write_bytes(older)
        assert producers.log.snapshots.latest is None
        assert Producers(tmp_path, 1).log.snapshots.offsets == [3]

    def test_those_of_no_segment_below_the_last_one_go(self, producers: Producers) -> None:
        for offset in (2, 5, 42):
            producers.log.snapshots.write(offset, b"")
        producers.log.snapshots.remove_strays([5])
        assert producers.on_disk == producers.log.snapshots.offsets == [5, 42]
        producers.log.snapshots.remove_strays([42])
        assert producers.on_disk == [42]

    @pytest.mark.parametrize(
        "damage",
        [
            lambda data: b"",
            lambda data: data[: len(data) // 2],
            lambda data: bytes(37) + data[37:],
            lambda data: data + b"\0",
        ],
    )
    def test_instead_of_a_bad_one_the_one_before_is_taken(
        self, producers: Producers, damage: Callable[[bytes], bytes]
    ) -> None:
        for number in range(2):
            producers.data(number, number)
            producers.snapshot()
        path = producers.log.snapshots.path(2)
        path.write_bytes(damage(path.read_bytes()))
        again = producers.reopened(0, 20)
        assert again.entry.last_data_offset == 0
        assert again.on_disk == [1, 20]


class TestReloading:
    def test_an_open_transaction(self, producers: Producers) -> None:
        producers.data(0, 0, transactional=True)
        producers.data(1, 1, transactional=True)
        producers.snapshot()
        again = producers.reopened(0, 3)
        assert [(batch.first_sequence, batch.first_offset) for batch in again.entry.batches] == [(1, 1)]
        assert again.entry.transaction_first_offset == 0
        assert again.first_unstable == LogOffsetMetadata(0)
        again.data(2, 2, transactional=True)

    def test_an_ended_transaction(self, producers: Producers) -> None:
        producers.data(0, 0, transactional=True)
        producers.data(1, 1, transactional=True)
        producers.marker(2)
        producers.snapshot()
        again = producers.reopened(0, 3)
        assert [(batch.first_sequence, batch.first_offset) for batch in again.entry.batches] == [(1, 1)]
        assert (again.entry.transaction_first_offset, again.first_unstable) == (None, None)

    def test_a_transaction_without_data(self, producers: Producers) -> None:
        producers.marker(0, now=55)
        producers.snapshot()
        again = producers.reopened(0, 1)
        assert (again.entry.last_timestamp, again.entry.transaction_first_offset) == (55, None)
        assert not again.entry.batches

    def test_older_coordinators_stay_fenced(self, producers: Producers) -> None:
        producers.data(0, 99, transactional=True)
        producers.marker(100, coordinator=1)
        producers.snapshot()
        again = producers.reopened(0, 101)
        with pytest.raises(TransactionCoordinatorFencedError):
            again.marker(101, coordinator=0)

    def test_fencing_by_an_aborted_epoch_is_kept(self, producers: Producers) -> None:
        producers.data(0, 0, transactional=True)
        producers.marker(1, epoch=1)
        assert (producers.entry.transaction_first_offset, producers.entry.last_data_offset) == (None, -1)
        producers.state.remove_expired(2)
        with pytest.raises(InvalidProducerEpochError):
            producers.data(1, 2)

    @pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.REPLICATION])
    def test_an_expired_producer_goes_on_with_any_sequence(self, producers: Producers, origin: AppendOrigin) -> None:
        producers.data(0, 0, now=0)
        producers.data(1, 1, now=1)
        producers.snapshot()
        again = producers.reopened(0, 2, now=EXPIRATION_MS + 1)
        assert ID not in again.state.producers
        again.data(2, 2, now=EXPIRATION_MS + 2, origin=origin)
        assert [batch.first_sequence for batch in again.entry.batches] == [2]
        assert again.state.map_end_offset == 3

    def test_others_stay(self, producers: Producers) -> None:
        producers.data(0, 0)
        producers.data(0, 1, producer_id=8)
        producers.snapshot()
        producers.reload(1, 2)
        known = {entry.producer_id: entry.last_data_offset for entry in producers.state.producers.values()}
        assert known == {ID: 0, 8: 1}

    def test_what_the_snapshot_does_not_have_is_forgotten(self, producers: Producers) -> None:
        """A truncation to the snapshot's offset forgets the producers and the transaction of later batches."""
        producers.data(0, 0)
        producers.snapshot()
        producers.data(0, 1, producer_id=8)
        producers.data(0, 2, producer_id=9, transactional=True)
        producers.reload(0, 1)
        assert set(producers.state.producers) == {ID}
        assert producers.first_unstable is None

    def test_a_cut_brings_a_transaction_back(self, producers: Producers) -> None:
        producers.data(0, 99, transactional=True)
        producers.snapshot()
        producers.marker(105)
        producers.state.on_high_watermark_updated(106)
        assert producers.first_unstable is None
        producers.snapshot()
        producers.data(1, 106)
        producers.reload(0, 106)
        assert producers.first_unstable is None
        producers.reload(0, 100)
        assert producers.first_unstable == LogOffsetMetadata(99)


class TestRebuilding:
    """Compacted batches keep the producer, sequence and offsets of the original batches."""

    @pytest.mark.parametrize(
        ("compacted", "last_sequence"),
        [
            (without_records(batch(23, [b"a", b"b"], producer_id=ID), last_offset=26), 3),
            (build_empty(23, 24), 1),
        ],
        ids=["gaps", "empty"],
    )
    def test_the_last_sequence(self, tmp_path: Path, compacted: bytes, last_sequence: int) -> None:
        end = 23 + last_sequence + 1
        write_segment(tmp_path, 0, [compacted, plain(end, 2)])
        table = scan_batches(compacted)
        appended, rebuilt = Producers(tmp_path, 1), Producers(tmp_path, 1)
        appended.log.apply(compacted, table)
        segment = LogSegment(LOCAL, tmp_path, 0, LogConfig().segment_limits, now_ms=1)
        rebuilt.log.rebuild(LogSegments((segment,)), 0, end, after_clean_shutdown=False, now_ms=1)
        for producers in (appended, rebuilt):
            assert producers.entry.last_sequence == last_sequence
            assert producers.entry.last_data_offset == end - 1
            assert producers.state.map_end_offset == end

    def test_batches_without_a_producer_move_the_end(self, producers: Producers) -> None:
        content = plain(0, 1)
        assert producers.log.apply(content, scan_batches(content)) == []
        assert producers.state.is_empty
        assert (producers.first_unstable, producers.snapshot()) == (None, 1)

    @pytest.mark.parametrize(
        ("clean", "recovery_point", "left"),
        [(True, 50, [30, 40, 50]), (False, 50, [30, 40, 50]), (False, 0, [10, 20, 30, 40, 50])],
    )
    def test_a_log_without_any_snapshot(
        self, tmp_path: Path, clean: bool, recovery_point: int, left: list[int]
    ) -> None:
        """The last two segments and the log end get snapshots. Recovery leaves one for each recovered segment."""
        for base in range(0, 50, 10):
            write_segment(tmp_path, base, [plain(base)])
        request = LoadRequest(
            fs=LOCAL,
            directory=tmp_path,
            config=LogConfig(),
            clean_shutdown=clean,
            recovery_point=recovery_point,
        )
        load_log(request, now_ms=1)
        assert sorted(int(path.stem) for path in tmp_path.glob("*.snapshot")) == left


class TestLateTransactions:
    def test_the_first_open_one_counts(self, producers: Producers) -> None:
        """Both transactions are late at the end, and each marker removes its own."""
        producers.data(0, 100, transactional=True, now=1000)
        producers.data(0, 150, transactional=True, producer_id=8, now=1500)
        assert [producers.is_late(now) for now in (1500, 1000 + LATE_MS, 1001 + LATE_MS)] == [False, False, True]
        now = 1501 + LATE_MS
        producers.marker(200, now=now)
        assert producers.is_late(now)
        producers.marker(250, now=now, producer_id=8)
        assert not producers.is_late(now)

    def test_after_reloading(self, producers: Producers) -> None:
        producers.data(0, 100, transactional=True, now=1000)
        producers.data(0, 150, transactional=True, producer_id=8, now=1500)
        producers.snapshot()
        assert producers.reopened(0, 151, now=1001 + LATE_MS).is_late(1001 + LATE_MS)

    @pytest.mark.parametrize("whole", [False, True])
    def test_a_cut_ends_it(self, producers: Producers, whole: bool) -> None:
        producers.data(0, 100, transactional=True, now=1000)
        assert producers.is_late(1001 + LATE_MS)
        if whole:
            producers.state.start_at(150)
        else:
            producers.reload(0, 80)
        assert not producers.is_late(1001 + LATE_MS)

    def test_none_without_a_timestamp(self, producers: Producers) -> None:
        producers.data(0, 100, transactional=True, now=-1)
        assert not producers.is_late(10 * LATE_MS)
