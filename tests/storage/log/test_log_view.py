"""A view's reading of directories made by hand, after a clean shutdown and after a kill."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

import log_maker
from conftest import GoldenFactory
from golden_sets import SCENARIOS
from held_directory import held
from log_maker import data, marker, plain, write_checkpoint, write_segment
from tidelog.model import (
    CorruptRecordError,
    DirectoryError,
    FileMissingError,
    LogOffsetMetadata,
    OffsetOutOfRangeError,
    Record,
    StorageError,
    TopicPartition,
)
from tidelog.record.rows import iter_records
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.directory_state import DirectoryCondition, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.row_stream import CorruptPolicy
from tidelog.storage.log.view.view_producers import read_producers

RECOVERY_POINT = "recovery-point-offset-checkpoint"
HIGH_WATERMARK = "replication-offset-checkpoint"
LOG_START = "log-start-offset-checkpoint"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """Write ``t-0`` into a log directory: three segments of ten batches of ten records, 0, 100, 200 up to 300."""
    for base in (0, 100, 200):
        write_segment(tmp_path / "t-0", base, [plain(base + 10 * number) for number in range(10)])
    return tmp_path


def view_of(root: Path, name: str = "t-0") -> LogView:
    return LogView(LOCAL, root / name)


def read(view: LogView, *arguments: int, isolation: str = "read_uncommitted", skip: bool = False) -> list[Record]:
    wanted = view.range(*arguments, isolation=isolation)
    chunks = view.columns(wanted, on_corrupt=CorruptPolicy.SKIP if skip else CorruptPolicy.FAIL)
    return [record for chunk in chunks for record in iter_records(chunk.columns)]


def offsets(view: LogView, *arguments: int, isolation: str = "read_uncommitted", skip: bool = False) -> list[int]:
    return [record.offset for record in read(view, *arguments, isolation=isolation, skip=skip)]


def log_file(root: Path, base: int, suffix: str = "log") -> Path:
    return root / "t-0" / f"{base:020d}.{suffix}"


def damage(path: Path, position: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(content)


@pytest.mark.parametrize("clean", [True, False])
def test_every_range_of_offsets(root: Path, clean: bool) -> None:
    if clean:
        log_maker.mark_clean(root)
    view = view_of(root)
    assert view.condition is (DirectoryCondition.CLEAN if clean else DirectoryCondition.UNCLEAN)
    assert view.topic_partition == TopicPartition("t", 0)
    for start, end in [(0, 300), (0, 0), (5, 6), (95, 105), (99, 101), (100, 200), (299, 300), (300, 300), (7, 1000)]:
        assert offsets(view, start, end) == list(range(start, min(end, 300)))
    assert all(record.value == b"%020d" % record.offset for record in read(view))


@pytest.mark.parametrize("start", [-1, 301])
def test_a_start_outside_the_log_is_refused_at_once(root: Path, start: int) -> None:
    with pytest.raises(OffsetOutOfRangeError) as caught:
        view_of(root).range(start)
    assert caught.value.offset == start
    assert "[0, 300)" in str(caught.value)


class TestWhereALogEnds:
    def test_a_torn_tail_in_a_killed_directory_does_not_count(self, root: Path) -> None:
        content = log_file(root, 200).read_bytes()
        log_file(root, 200).write_bytes(content[:-5])
        view = view_of(root)
        assert offsets(view) == list(range(290))
        tail = view.state.invalid_tail
        assert tail is not None
        assert (tail.path, tail.position, tail.position + tail.length) == (
            log_file(root, 200),
            len(content) // 10 * 9,
            len(content) - 5,
        )
        assert tail.reason == "a batch is incomplete"

    @pytest.mark.parametrize("at", [20, 40, 100])
    def test_a_bad_crc_past_the_recovery_point_ends_the_log(self, root: Path, at: int) -> None:
        """Recovery would truncate there and delete the later segments."""
        batch = log_file(root, 100).stat().st_size // 10
        damage(log_file(root, 100), 3 * batch + at, b"\xa5")
        view = view_of(root)
        assert view.log_end == 130
        assert offsets(view) == list(range(130))
        tail = view.state.invalid_tail
        assert tail is not None
        assert (tail.position, tail.later_segments, tail.reason) == (3 * batch, 1, "a batch's CRC does not match")
        assert offsets(view, 0, 300) == list(range(130))

    def test_below_the_recovery_point_nothing_is_walked_and_damage_is_an_error(self, root: Path) -> None:
        write_checkpoint(root, RECOVERY_POINT, {"t-0": 200})
        batch = log_file(root, 100).stat().st_size // 10
        damage(log_file(root, 100), 3 * batch + 100, b"\xa5")
        view = view_of(root)
        assert view.log_end == 300
        with pytest.raises(CorruptRecordError) as caught:
            read(view)
        assert caught.value.path == str(log_file(root, 100))
        assert (caught.value.position, caught.value.offset) == (3 * batch, 130)
        assert offsets(view, 0, 130) == list(range(130))
        assert offsets(view, 140) == list(range(140, 300))
        assert offsets(view, skip=True) == [*range(130), *range(140, 300)]

    def test_a_segment_that_lost_its_index_is_cut_without_ending_the_log(self, root: Path) -> None:
        """Kafka does the same: it recovers that segment while it lists the files."""
        batch = log_file(root, 100).stat().st_size // 10
        damage(log_file(root, 100), 3 * batch + 100, b"\xa5")
        log_file(root, 100, "index").unlink()
        assert offsets(view_of(root)) == [*range(130), *range(200, 300)]

    def test_zeros_of_a_preallocated_log_do_not_count(self, root: Path) -> None:
        with log_file(root, 200).open("ab") as file:
            file.write(bytes(5000))
        view = view_of(root)
        assert offsets(view) == list(range(300))
        assert view.state.invalid_tail is not None

    def test_an_empty_active_segment_ends_at_its_base(self, root: Path) -> None:
        write_segment(root / "t-0", 300, [])
        assert view_of(root).offsets().log_end.segment_base_offset == 300
        assert offsets(view_of(root)) == list(range(300))

    def test_a_gap_before_an_empty_active_segment_has_no_position(self, root: Path) -> None:
        write_segment(root / "t-0", 400, [])
        view = view_of(root)
        assert (view.log_end, view.resolve(310)) == (400, LogOffsetMetadata(310))
        assert view.resolve(299) == LogOffsetMetadata(299, 200, view.resolve(290).position_in_segment)
        assert view.resolve(400) == LogOffsetMetadata(400, 400, 0)

    def test_an_offset_that_recovery_refuses_in_a_segment_ends_the_log(self, tmp_path: Path) -> None:
        """An index holds offsets up to 2^31 - 1 above the base."""
        write_segment(tmp_path / "t-0", 0, [plain(0)])
        with log_file(tmp_path, 0).open("ab") as file:
            file.write(plain(2**31, 1))
        write_segment(tmp_path / "t-0", 100, [plain(100)])
        view = view_of(tmp_path)
        assert view.log_end == 10
        assert view.state.invalid_tail is not None
        assert view.state.invalid_tail.reason == "a batch's offset lies outside its segment"

    def test_no_segment_at_all(self, tmp_path: Path) -> None:
        (tmp_path / "t-0").mkdir()
        write_checkpoint(tmp_path, LOG_START, {"t-0": 42})
        view = view_of(tmp_path)
        assert (view.log_start, view.log_end, offsets(view)) == (42, 42, [])

    def test_a_log_that_ends_below_its_start_is_empty(self, root: Path) -> None:
        write_checkpoint(root, LOG_START, {"t-0": 1000})
        view = view_of(root)
        assert (view.log_start, view.log_end, offsets(view)) == (1000, 1000, [])

    def test_the_log_starts_at_the_checkpoint_or_the_first_segment(self, root: Path) -> None:
        write_checkpoint(root, LOG_START, {"t-0": 55})
        assert offsets(view_of(root)) == list(range(55, 300))
        log_file(root, 0).unlink()
        assert offsets(view_of(root)) == list(range(100, 300))

    def test_a_clean_log_is_walked_from_its_last_index_entry(self, root: Path) -> None:
        log_maker.mark_clean(root)
        view = view_of(root)
        end = view.offsets().log_end
        assert (end.message_offset, end.segment_base_offset) == (300, 200)
        assert end.position_in_segment == log_file(root, 200).stat().st_size


class TestLeftovers:
    def test_rubbish_is_passed_over(self, root: Path) -> None:
        for suffix in (".deleted", ".cleaned"):
            write_segment(root / "t-0", 500, [plain(500)], suffix=suffix)
        log_file(root, 900, "index").write_bytes(b"orphan")
        assert offsets(view_of(root)) == list(range(300))

    def test_a_finished_swap_replaces_what_it_covers(self, root: Path) -> None:
        """The cleaner kept one batch of each of two segments, and a kill came before the old ones were deleted."""
        write_segment(root / "t-0", 0, [plain(50), plain(190)], suffix=".swap")
        assert offsets(view_of(root)) == [*range(50, 60), *range(190, 300)]

    def test_a_swap_that_ends_before_the_last_segment_it_was_made_of(self, root: Path) -> None:
        write_segment(root / "t-0", 0, [plain(50)], suffix=".swap")
        assert offsets(view_of(root)) == [*range(50, 60), *range(100, 300)]

    def test_an_unfinished_split_is_passed_over(self, root: Path) -> None:
        write_segment(root / "t-0", 0, [plain(0)], suffix=".cleaned")
        write_segment(root / "t-0", 50, [plain(50)], suffix=".swap")
        assert offsets(view_of(root)) == list(range(300))


class TestDamage:
    """Damage in a clean directory, where recovery does not look: an error, or exactly the provably good records."""

    @pytest.fixture
    def batch(self, root: Path) -> int:
        log_maker.mark_clean(root)
        return log_file(root, 100).stat().st_size // 10

    @pytest.mark.parametrize(
        ("at", "content"),
        [
            (0, b"\x00\x00\x00\x00\x00\x00\x00\x05"),  # base offset too low
            (0, b"\x00\x00\x00\x00\x00\x00\x01\x90"),  # base offset in a later segment
            (0, b"\xff"),  # negative
            (8, b"\x00\x00\x00\x00"),  # length 0
            (8, b"\x7f\xff\xff\xff"),  # length past the end of the file
            (11, b"\x91"),  # length a little off
            (16, b"\x09"),  # magic
            (16, b"\x01"),  # another magic that exists
            (17, b"\x00"),  # CRC
            (80, b"\x00\x00"),  # records
        ],
    )
    def test_a_batch_in_the_middle(self, root: Path, batch: int, at: int, content: bytes) -> None:
        damage(log_file(root, 100), 3 * batch + at, content)
        with pytest.raises(CorruptRecordError) as caught:
            read(view_of(root))
        assert caught.value.path == str(log_file(root, 100))
        left = offsets(view_of(root), skip=True)
        assert set(left) <= set(range(300))
        assert left == sorted(left)
        assert set(range(300)) - set(left) <= set(range(120, 150))

    def test_garbage_at_the_end_of_a_clean_log(self, root: Path, batch: int) -> None:
        with log_file(root, 200).open("ab") as file:
            file.write(b"garbage")
        view = view_of(root)
        assert view.log_end == 300
        assert view.state.invalid_tail is not None

    def test_skipping_counts_what_it_left_out(self, root: Path, batch: int) -> None:
        damage(log_file(root, 100), 3 * batch + 80, b"\0\0")
        view = view_of(root)
        stream = view.batches(view.range(), on_corrupt=CorruptPolicy.SKIP)
        assert sum(len(rows.table) for rows in stream) == 29
        assert (stream.stats.skipped_ranges, stream.stats.skipped_bytes) == (1, batch)
        assert (stream.stats.segments, stream.stats.batches, stream.next_offset) == (3, 29, 300)


@pytest.fixture
def holder(root: Path) -> Iterator[Path]:
    """Hold the directory's lock in another process."""
    with held(root):
        yield root


class TestUntil:
    def test_a_held_directory_is_read_up_to_its_high_watermark(self, holder: Path) -> None:
        write_checkpoint(holder, HIGH_WATERMARK, {"t-0": 155})
        write_checkpoint(holder, RECOVERY_POINT, {"t-0": 120})
        state = read_directory_state(LOCAL, holder)
        assert state.condition is DirectoryCondition.HELD
        assert state.holder is not None
        view = view_of(holder)
        assert offsets(view) == list(range(155))
        assert {until: view.end_offset(until) for until in ("log_end", "high_watermark", "checkpoint")} == {
            "log_end": 300,
            "high_watermark": 155,
            "checkpoint": 120,
        }
        with (holder / ".lock").open("r+b") as file, pytest.raises(BlockingIOError):
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_a_directory_that_nobody_holds_is_read_to_its_end(self, root: Path) -> None:
        write_checkpoint(root, HIGH_WATERMARK, {"t-0": 155})
        view = view_of(root)
        assert offsets(view) == list(range(300))
        assert view.end_offset("high_watermark") == 155
        assert view.end_offset("checkpoint") == 0

    @pytest.mark.parametrize(("checkpointed", "end"), [(1000, 300), (0, 40), (39, 40)])
    def test_a_checkpoint_outside_the_log_is_pulled_in(self, root: Path, checkpointed: int, end: int) -> None:
        write_checkpoint(root, HIGH_WATERMARK, {"t-0": checkpointed})
        write_checkpoint(root, LOG_START, {"t-0": 40})
        assert view_of(root).end_offset("high_watermark") == end

    def test_an_unknown_end(self, root: Path) -> None:
        with pytest.raises(ValueError, match="tomorrow"):
            view_of(root).end_offset("tomorrow")

    def test_unreadable_checkpoints_count_as_empty(self, root: Path) -> None:
        (root / RECOVERY_POINT).write_text("not a checkpoint")
        view = view_of(root)
        assert offsets(view) == list(range(300))
        assert len(view.directory_state.warnings) == 1

    def test_a_checkpoint_that_is_no_file_counts_as_empty_unless_the_owner_reads(self, root: Path) -> None:
        (root / HIGH_WATERMARK).unlink(missing_ok=True)
        (root / HIGH_WATERMARK).mkdir()
        (root / LOG_START).symlink_to(LOG_START)
        os.mkfifo(root / RECOVERY_POINT)
        warnings = read_directory_state(LOCAL, root).warnings
        assert [warning.endswith("treated as empty") for warning in warnings] == [True] * 3
        assert offsets(view_of(root)) == list(range(300))
        with pytest.raises(StorageError, match="not a regular file"):
            read_directory_state(LOCAL, root, held_here=True)


class TestCommitted:
    """Producer 7 aborts 0-2, commits 10-12 and is open at 20; producer 8 aborts 5-6 in between."""

    @pytest.fixture
    def txn(self, tmp_path: Path) -> Path:
        first = [data(0, 3), data(3, 2, producer_id=8), marker(5, False), plain(6, 4), data(10, 3)]
        second = [marker(13, False, producer_id=8), marker(14, True), plain(15, 5), data(20, 2), plain(22, 3)]
        write_segment(tmp_path / "t-0", 0, first)
        write_segment(tmp_path / "t-0", 13, second)
        return tmp_path

    def test_after_a_kill_without_any_index_or_snapshot(self, txn: Path) -> None:
        view = view_of(txn)
        snapshot = view.offsets()
        assert (snapshot.last_stable.message_offset, snapshot.high_watermark.message_offset) == (20, 25)
        assert offsets(view, isolation="read_committed") == [*range(6, 13), *range(15, 20)]
        assert offsets(view) == [*range(5), *range(6, 13), *range(15, 25)]

    def test_a_marker_above_the_high_watermark_ends_nothing_yet(self, txn: Path) -> None:
        write_checkpoint(txn, HIGH_WATERMARK, {"t-0": 14})
        view = view_of(txn)
        assert view.last_stable_offset("high_watermark") == 10
        write_checkpoint(txn, HIGH_WATERMARK, {"t-0": 13})
        assert view_of(txn).last_stable_offset("high_watermark") == 3

    def test_control_records_only_when_asked_for(self, txn: Path) -> None:
        view = view_of(txn)
        with_control = [
            offset for chunk in view.columns(view.range(control=True)) for offset in chunk.columns.offset.tolist()
        ]
        assert with_control == list(range(25))

    def test_a_clean_log_without_snapshots_has_no_producers(self, txn: Path) -> None:
        log_maker.mark_clean(txn)
        assert view_of(txn).last_stable_offset() == 25

    def test_producers_are_found_below_the_log_start(self, txn: Path) -> None:
        write_checkpoint(txn, LOG_START, {"t-0": 23})
        view = view_of(txn)
        assert view.log_start == 23
        assert {number: entry.transaction_first_offset for number, entry in read_producers(view).items()} == {
            7: 20,
            8: None,
        }

    def test_a_log_without_segments_has_no_producers(self, tmp_path: Path) -> None:
        (tmp_path / "t-0").mkdir()
        assert read_producers(view_of(tmp_path)) == {}

    @pytest.mark.parametrize("victim", ["txnindex", "snapshot"])
    @pytest.mark.parametrize("kind", ["clean", "unclean"])
    def test_damaged_indexes_and_snapshots_are_made_up_for(
        self, golden: GoldenFactory, golden_copy: GoldenFactory, victim: str, kind: str
    ) -> None:
        expected = LogView(LOCAL, golden(SCENARIOS, kind) / "txn-0")
        root = golden_copy(SCENARIOS, kind)
        for path in (root / "txn-0").glob(f"*.{victim}"):
            path.write_bytes(os.urandom(path.stat().st_size))
        view = view_of(root, "txn-0")
        assert offsets(view, isolation="read_committed") == offsets(expected, isolation="read_committed")
        assert view.last_stable_offset() == 516


class TestPlaces:
    def test_no_such_directory(self, tmp_path: Path) -> None:
        with pytest.raises(FileMissingError):
            _ = view_of(tmp_path, "gone-0").state

    def test_a_directory_that_is_no_partition(self, tmp_path: Path) -> None:
        with pytest.raises(DirectoryError, match="not a partition directory"):
            _ = view_of(tmp_path, "").state

    def test_a_copy_under_another_name(self, root: Path) -> None:
        (root / "t-0").rename(root / "backup")
        view = view_of(root, "backup")
        assert view.topic_partition is None
        assert offsets(view) == list(range(300))

    def test_a_directory_on_its_way(self, root: Path) -> None:
        name = "t-0.0123456789abcdef0123456789abcdef-future"
        (root / "t-0").rename(root / name)
        view = view_of(root, name)
        assert view.topic_partition == TopicPartition("t", 0)
        assert offsets(view) == list(range(300))
