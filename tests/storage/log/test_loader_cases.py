"""Cases of Kafka's tests of loading a log: producers, transactions, indexes and damage over segments.

The logs are written by hand (``log_maker``), loaded as after a kill by default, and read by a view.
"""

from __future__ import annotations

import random
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from log_maker import BASE_TIME, CONTROL, TRANSACTIONAL, batch, data, mark_clean, marker, plain, write_segment
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL, LocalFileSystem
from tidelog.storage.index import AbortedTxn, OffsetIndexReader, TimeIndexReader, TransactionIndexReader
from tidelog.storage.log.load.loader import LoadedLog, LoadRequest, load_log
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.view.log_view import LogView

NOW = BASE_TIME + 1000


def load(directory: Path, *, clean: bool = False, fs: Any = LOCAL, now_ms: int = NOW, **more: Any) -> LoadedLog:
    config = LogConfig(index_interval_bytes=0)
    return load_log(LoadRequest(fs=fs, directory=directory, config=config, clean_shutdown=clean, **more), now_ms=now_ms)


def file(directory: Path, base: int, suffix: str = "log") -> Path:
    return directory / f"{base:020d}.{suffix}"


def snapshots(directory: Path) -> list[int]:
    return sorted(int(path.stem) for path in directory.glob("*.snapshot"))


def offsets(directory: Path) -> list[int]:
    view = LogView(LOCAL, directory)
    return [record.offset for chunk in view.columns(view.range()) for record in iter_records(chunk.columns)]


def one_record_each(directory: Path, bases: Sequence[int]) -> Path:
    for base in bases:
        write_segment(directory, base, [plain(base, 1)])
    return directory


class Watching(LocalFileSystem):
    """A file system that records which segments are opened."""

    __slots__ = ("opened",)

    def __init__(self) -> None:
        self.opened: set[int] = set()

    def open(self, path: Path, *, write: bool = False, create: bool = False) -> Any:
        if path.suffix == ".log":
            self.opened.add(int(path.stem))
        return super().open(path, write=write, create=create)


class TestSnapshots:
    BASES = tuple(range(0, 100, 10))

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        """Write ten segments, each with a snapshot at its base, and a snapshot at the end."""
        for base in self.BASES:
            write_segment(tmp_path / "t-0", base, [batch(base, [b"x"] * 10, producer_id=base)])
        load(tmp_path / "t-0")
        assert snapshots(tmp_path / "t-0") == [*self.BASES[1:], 100]
        return tmp_path / "t-0"

    def test_without_one_at_the_recovery_point_the_segments_before_are_read_too(self, directory: Path) -> None:
        for base in self.BASES[1:-2]:
            file(directory, base, "snapshot").unlink()
        fs = Watching()
        loaded = load(directory, fs=fs, recovery_point=60)
        assert fs.opened == set(self.BASES)
        assert [segment.base_offset for segment in loaded.recovered] == [60, 70, 80, 90]
        assert snapshots(directory) == [60, 70, 80, 90, 100]
        assert set(loaded.producers.state.producers) == set(self.BASES)

    def test_with_one_only_the_unflushed_segments_are_read(self, directory: Path) -> None:
        for base in self.BASES[1:-4]:
            file(directory, base, "snapshot").unlink()
        fs = Watching()
        loaded = load(directory, fs=fs, recovery_point=61)
        assert fs.opened == {60, 70, 80, 90}
        assert [segment.base_offset for segment in loaded.recovered] == [60, 70, 80, 90]
        assert snapshots(directory) == [60, 70, 80, 90, 100]
        assert set(loaded.producers.state.producers) == set(self.BASES)

    def test_one_that_belongs_to_no_segment_goes_but_the_largest_stays(self, directory: Path) -> None:
        file(directory, 95, "snapshot").touch()
        file(directory, 33, "snapshot").touch()
        load(directory, clean=True)
        assert snapshots(directory) == [*self.BASES[1:], 100]

    def test_none_is_left_of_segments_that_damage_took(self, directory: Path) -> None:
        """The damaged log ends below its start, so everything is deleted and the log begins again at its start."""
        log = file(directory, 10)
        log.write_bytes(b"corruptRecord")
        loaded = load(directory, log_start_offset=40)
        assert (loaded.base_offsets, loaded.log_start_offset, loaded.end_offset) == ((40,), 40, 40)
        assert snapshots(directory) == []
        one_record_each(directory, range(40, 45))
        loaded = load(directory, log_start_offset=40)
        assert (loaded.log_start_offset, loaded.end_offset) == (40, 45)
        assert snapshots(directory) == [41, 42, 43, 44, 45]
        assert not [path for path in directory.iterdir() if path.suffix == ".deleted"]

    def test_after_an_orderly_stop_without_any_nothing_is_read(self, directory: Path) -> None:
        for path in directory.glob("*.snapshot"):
            path.unlink()
        fs = Watching()
        loaded = load(directory, clean=True, fs=fs)
        assert fs.opened <= {90}
        assert loaded.producers.state.is_empty
        assert snapshots(directory) == [80, 90, 100]


class TestDeletedRecords:
    def test_in_the_middle_of_a_segment_the_producers_stay(self, tmp_path: Path) -> None:
        batches = [batch(offset, [b"x"], producer_id=1 + offset) for offset in range(2)]
        write_segment(tmp_path / "t-0", 0, batches)
        for request in ({"clean": False}, {"clean": True}):
            loaded = load(tmp_path / "t-0", log_start_offset=1, **request)
            assert set(loaded.producers.state.producers) == {1, 2}
            assert loaded.log_start_offset == 1

    def test_with_its_segment_a_producer_is_forgotten(self, tmp_path: Path) -> None:
        for offset in range(2):
            write_segment(tmp_path / "t-0", offset, [batch(offset, [b"x"], producer_id=1 + offset)])
        load(tmp_path / "t-0")
        for suffix in ("log", "index", "timeindex"):
            file(tmp_path / "t-0", 0, suffix).unlink()
        loaded = load(tmp_path / "t-0", log_start_offset=1)
        assert set(loaded.producers.state.producers) == {2}


class TestTransactions:
    """Four producers over many segments, mixed with other records. Producers 1 and 2 abort, 3 and 4 commit."""

    ABORTED = (AbortedTxn(1, 0, 29, 8), AbortedTxn(2, 8, 74, 36))

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        steps: list[tuple[int | None, int | bool]] = [
            (1, 5), (None, 3), (2, 2), (1, 4), (3, 3), (None, 2), (1, 10), (1, False), (2, 6), (4, 3), (None, 10),
            (3, 9), (3, True), (4, 8), (2, 7), (2, False), (None, 10), (4, 4), (4, True),
        ]  # fmt: skip
        batches: list[bytes] = []
        offset = 0
        for producer, what in steps:
            if producer is None:
                batches.append(plain(offset, int(what)))
            elif isinstance(what, bool):
                batches.append(marker(offset, what, producer_id=producer))
            else:
                batches.append(data(offset, what, producer_id=producer))
            offset += 1 if isinstance(what, bool) else what
        assert offset == 90
        for at in range(0, len(batches), 3):
            base = struct.unpack_from(">q", batches[at])[0]
            write_segment(tmp_path / "t-0", base, batches[at : at + 3])
        load(tmp_path / "t-0")
        return tmp_path / "t-0"

    def aborted(self, directory: Path) -> tuple[AbortedTxn, ...]:
        return tuple(
            transaction
            for path in sorted(directory.glob("*.txnindex"))
            for transaction in TransactionIndexReader(path.read_bytes(), int(path.stem))
        )

    def test_their_index_comes_back_from_the_log_alone(self, directory: Path) -> None:
        assert self.aborted(directory) == self.ABORTED
        for path in [*directory.glob("*index"), *directory.glob("*.snapshot")]:
            path.unlink()
        load(directory)
        assert self.aborted(directory) == self.ABORTED

    @pytest.mark.parametrize("snapshots_kept", [True, False])
    def test_that_of_the_last_segment_needs_the_state_before_it(self, directory: Path, snapshots_kept: bool) -> None:
        """Producer 4's transaction began segments earlier. Without a snapshot the log is read from its start."""
        last = max(int(path.stem) for path in directory.glob("*.log"))
        for suffix in ("index", "txnindex"):
            file(directory, last, suffix).unlink(missing_ok=True)
        if not snapshots_kept:
            for path in directory.glob("*.snapshot"):
                path.unlink()
        loaded = load(directory, recovery_point=last)
        assert [segment.base_offset for segment in loaded.recovered] == [last]
        assert self.aborted(directory) == self.ABORTED
        assert not loaded.producers.state.transactions.ongoing

    def test_a_coordinator_epoch_that_falls_is_taken_as_it_is(self, tmp_path: Path) -> None:
        """Recovery takes the latest marker, whatever its coordinator epoch (KAFKA-9144)."""

        def ended(offset: int, coordinator_epoch: int, timestamp: int) -> bytes:
            return batch(
                offset,
                [struct.pack(">hi", 0, coordinator_epoch)],
                key=struct.pack(">hh", 0, 0),
                attributes=TRANSACTIONAL | CONTROL,
                producer_id=1,
                timestamp=timestamp,
            )

        write_segment(tmp_path / "t-0", 0, [ended(0, 5, BASE_TIME), ended(1, 4, BASE_TIME + 7)])
        loaded = load(tmp_path / "t-0")
        entry = loaded.producers.state.producers[1]
        assert (entry.last_timestamp, entry.coordinator_epoch) == (BASE_TIME + 7, 4)


class TestIndexes:
    COUNT = 50

    @pytest.fixture
    def directory(self, tmp_path: Path) -> Path:
        for base in range(0, self.COUNT, 5):
            batches = [plain(base + at, 1, timestamp=BASE_TIME + 10 * (base + at)) for at in range(5)]
            write_segment(tmp_path / "t-0", base, batches)
        return tmp_path / "t-0"

    @pytest.mark.parametrize("content", [None, b"  "])
    @pytest.mark.parametrize("clean", [True, False])
    def test_deleted_or_damaged_they_come_back_and_find_everything(
        self, directory: Path, content: bytes | None, clean: bool
    ) -> None:
        before = {path.name: path.read_bytes() for path in directory.glob("*index")}
        for name in before:
            if content is None:
                (directory / name).unlink()
            else:
                (directory / name).write_bytes(content)
        loaded = load(directory, clean=clean)
        assert loaded.end_offset == self.COUNT
        assert {path.name: path.read_bytes() for path in directory.glob("*index")} == before
        assert len(OffsetIndexReader(file(directory, 0, "index").read_bytes(), 0).entries()[0])
        assert len(TimeIndexReader(file(directory, 0, "timeindex").read_bytes(), 0).entries()[0])
        mark_clean(directory.parent)
        view = LogView(LOCAL, directory)
        for offset in range(self.COUNT):
            found = view.offset_for_timestamp(BASE_TIME + 10 * offset)
            assert found is not None
            assert found.offset == offset
        assert offsets(directory) == list(range(self.COUNT))

    def test_without_a_log_they_go(self, directory: Path) -> None:
        for suffix in ("index", "timeindex"):
            file(directory, 777, suffix).touch()
            file(directory, 0, suffix).write_bytes(b"")
        load(directory)
        assert not list(directory.glob(f"{777:020d}*"))
        assert file(directory, 0, "index").stat().st_size > 0

    def test_loaded_again_with_and_without_recovery_they_stay_as_they_were(self, directory: Path) -> None:
        before = {path.name: path.read_bytes() for path in directory.glob("*index")}
        for request, recovery_point in (
            ({"recovery_point": self.COUNT}, self.COUNT),
            ({"recovery_point": 10}, 10),
            ({"clean": True}, self.COUNT),
        ):
            loaded = load(directory, **request)
            assert (loaded.end_offset, loaded.recovery_point) == (self.COUNT, recovery_point)
            assert {path.name: path.read_bytes() for path in directory.glob("*index")} == before

    def test_those_of_an_empty_active_segment_are_made(self, directory: Path) -> None:
        file(directory, self.COUNT).touch()
        loaded = load(directory, recovery_point=self.COUNT)
        assert (loaded.base_offsets[-1], loaded.end_offset, loaded.recovery_point) == (self.COUNT,) * 3
        for suffix in ("index", "timeindex"):
            assert file(directory, self.COUNT, suffix).read_bytes() == b""


class TestDamage:
    @pytest.mark.parametrize("seed", range(20))
    def test_nonsense_behind_the_log_and_its_index_is_cut(self, tmp_path: Path, seed: int) -> None:
        chance = random.Random(seed)
        directory = tmp_path / "t-0"
        count = 50 + chance.randrange(50)
        for base in range(0, count, 7):
            write_segment(directory, base, [plain(at, 1) for at in range(base, min(base + 7, count))])
        before = {path.name: path.read_bytes() for path in directory.iterdir()}
        last = max(int(path.stem) for path in directory.glob("*.log"))
        for suffix in ("log", "index"):
            with file(directory, last, suffix).open("ab") as stream:
                stream.write(chance.randbytes(1 + chance.randrange(1024)))
        loaded = load(directory, recovery_point=50)
        assert loaded.end_offset == count
        assert {path.name: path.read_bytes() for path in directory.iterdir() if path.name in before} == before
        assert offsets(directory) == list(range(count))

    def test_below_the_log_start_it_empties_the_log(self, tmp_path: Path) -> None:
        directory = one_record_each(tmp_path / "t-0", range(6))
        file(directory, 1).write_bytes(b"corruptRecord")
        loaded = load(directory, log_start_offset=4)
        assert (loaded.base_offsets, loaded.log_start_offset, loaded.end_offset) == ((4,), 4, 4)
        assert sorted(path.suffix for path in directory.glob(f"{4:020d}.*")) == [".index", ".log", ".timeindex"]
        assert {path.stem for path in directory.glob("*.log")} == {f"{4:020d}"}

    def test_epochs_that_the_checkpoint_lost_are_found_again(self, tmp_path: Path) -> None:
        batches = [batch(at, [b"x"], epoch=epoch) for at, epoch in enumerate((1, 2, 2, 3))]
        write_segment(tmp_path / "t-0", 0, batches)
        checkpoint = tmp_path / "t-0" / "leader-epoch-checkpoint"
        checkpoint.write_text("0\n1\n1 0\n")
        loaded = load(tmp_path / "t-0")
        assert checkpoint.read_text() == "0\n3\n1 0\n2 1\n3 3\n"
        assert loaded.epochs.latest_epoch == 3
