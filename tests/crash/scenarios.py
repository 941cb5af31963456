"""Scenarios of a log whose power may fail: each sets up a log and names the operation to interrupt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from crash.examination import batches_of
from crash.story import HOME, ROOT, Stored, Story
from log_maker import plain, write_segment
from overflowed_log import HIGH, LAST, LOW, MIDDLE, OVERFLOWED, three_pieces, with_epoch, without_index
from tidelog.storage.log.load.segment_swap import swap_in
from tidelog.storage.log.partition_log import LogReadRequest
from tidelog.testing import Kept, SimulatedDisk

Operation = Callable[[Story], None]


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    prepare: Callable[[], Story]
    operation: Operation


def empty() -> Story:
    """Create a log and flush it."""
    disk = SimulatedDisk()
    disk.make_dir(ROOT)
    disk.sync_all()
    story = Story(disk)
    story.open()
    story.log.flush()
    return story


def filled() -> Story:
    """Write some segments with several producers and epochs and an aborted transaction, all flushed."""
    story = empty()
    story.fill(6)
    story.append(2, producer=7)
    story.new_epoch()
    story.append(2, producer=8, transactional=True)
    story.fill(4)
    story.append(1, producer=7)
    story.end_transaction(8, committed=False)
    story.fill(5, size=150)
    story.new_epoch()
    story.append(3, producer=7)
    story.fill(4)
    story.log.flush()
    return story


def half_flushed() -> Story:
    """Write the filled log and as much again without a flush."""
    story = filled()
    story.fill(4)
    story.append(2, producer=9, transactional=True)
    story.append(2, producer=7)
    story.fill(4, size=200)
    story.end_transaction(9, committed=False)
    story.fill(2)
    return story


def append(story: Story) -> None:
    story.append()
    story.append(3, size=400)
    story.append(2, producer=7)
    story.new_epoch()
    story.append(2, producer=9, transactional=True)
    story.end_transaction(9, committed=False)
    story.fill(6, size=60)


def flush_every_message(story: Story) -> None:
    """Flush each append, so that an acknowledged record is safe."""
    story.with_config(flush_messages=1)
    story.fill(5)
    story.append(2, producer=7)
    story.append(3, size=450)
    story.fill(2)


def roll(story: Story) -> None:
    story.append()
    story.log.roll()
    story.append()
    story.log.roll()
    story.log.flush(story.log.end_offset)


def append_with_synced_rolls(story: Story) -> None:
    """Fill several segments of a new log, whose rolls are all that syncs it."""
    story.is_gapless = True
    story.open(syncs_rolls=True)
    story.fill(4, size=200)
    story.append(2, producer=7)
    story.new_epoch()
    story.append(2, producer=9, transactional=True)
    story.fill(4, size=300)
    story.end_transaction(9, committed=False)
    story.log.roll()
    story.fill(2)
    assert len(story.log.base_offsets) > 3


def flush(story: Story) -> None:
    story.log.flush(story.log.base_offsets[-1])
    story.log.flush()


def truncate(story: Story) -> None:
    end = story.log.end_offset
    story.truncate_to(end - 3)
    story.fill(2)
    story.truncate_to(story.batches[len(story.batches) // 2].first)
    story.fill(3)
    story.log.flush()
    story.truncate_to(story.log.base_offsets[1])


def truncate_fully(story: Story) -> None:
    story.truncate_fully(story.log.end_offset + 10)
    story.fill(3)
    story.log.flush()


def delete_records(story: Story) -> None:
    story.delete_records(story.batches[3].first)
    story.delete_records(story.log.base_offsets[2] + 1)
    story.apply_retention(story.log.log_start_offset)
    story.append()
    story.remove_deleted()


def retention(story: Story) -> None:
    story.with_config(retention_bytes=3000)
    story.apply_retention(story.log.base_offsets[-1], checkpointed=False)
    story.append()
    story.with_config(retention_ms=1000)
    story.apply_retention(story.log.end_offset, later_ms=5000, checkpointed=False)
    story.append()
    story.remove_deleted()
    story.log.flush()


def close(story: Story) -> None:
    story.close()


def reopened() -> Story:
    """Close a log, open it again, and read it."""
    story = half_flushed()
    story.close()
    story.is_clean = False
    story.open()
    story.log.read(LogReadRequest(start_offset=story.log.end_offset - 1, max_bytes=1))
    return story


def create(story: Story) -> None:
    story.open()
    story.fill(3)
    story.log.flush()


def rename(story: Story) -> None:
    story.rename(ROOT / "t-0.00000000000000000000000000000000-delete")


def move_name(story: Story) -> None:
    story.rename(ROOT / "moved-0")
    story.fill(2)
    story.log.flush()


def delete(story: Story) -> None:
    story.rename(ROOT / "t-0.00000000000000000000000000000000-delete")
    story.delete()


def not_created() -> Story:
    disk = SimulatedDisk()
    disk.make_dir(ROOT)
    disk.sync_all()
    return Story(disk)


def killed() -> Story:
    """Kill the log without losing unflushed data, so that recovery has most to do."""
    story = half_flushed()
    return story.killed(story.disk.after_crash(Kept()))


def torn() -> Story:
    """Kill the log and lose some of the unflushed data."""
    story = half_flushed()
    return story.killed(story.disk.after_crash(3))


def without_indexes() -> Story:
    """Remove or damage indexes of flushed segments, so that recovery rebuilds these too."""
    story = half_flushed()
    disk = story.disk.after_crash(Kept())
    disk.remove(HOME / f"{17:020d}.index")
    with disk.open(HOME / f"{28:020d}.timeindex", write=True) as file:
        file.truncate(13)
    disk.sync_all()
    return story.killed(disk)


def recover(story: Story) -> None:
    story.open(clean=False, recovery_point=story.synced)
    story.batches = [one for one in story.batches if one.end <= story.log.end_offset]
    story.append()
    story.log.flush()


def of_real_files(make: Callable[[Path], object], kept: Sequence[bytes], gone: Sequence[bytes] = ()) -> Story:
    """Load a directory that was written by hand. All of it is safe, and ``kept`` must stay."""
    with TemporaryDirectory() as home:
        make(Path(home))
        disk = SimulatedDisk.load(Path(home), HOME)
    story = Story(disk)
    for data in (*kept, *gone):
        story.written.setdefault(first_offset(data), set()).add(data)
    story.batches = [Stored(first_offset(data), last_offset(data) + 1, data) for data in kept]
    story.synced = story.stale_recovery_point = story.batches[-1].end
    return story


def first_offset(data: bytes) -> int:
    return int.from_bytes(data[:8], "big")


def last_offset(data: bytes) -> int:
    return first_offset(data) + int.from_bytes(data[23:27], "big")


def overflowed() -> Story:
    """Make a flushed segment with offsets that no index can hold."""
    before = [plain(10 * number) for number in range(10)]
    behind = [plain(LAST), plain(LAST + 10)]
    return of_real_files(without_index, [*before, *LOW, *MIDDLE, *HIGH, *behind])


def compacted(suffix: str = ".cleaned") -> Story:
    """Write four segments, and two synced segments into which a cleaner rewrote three of them."""
    old = {0: [plain(0), plain(10)], 100: [plain(100)], 200: [plain(200), plain(210)], 300: [plain(300)]}
    new = {0: [plain(10), plain(100)], 200: [plain(210)]}

    def make(directory: Path) -> None:
        for base, batches in old.items():
            write_segment(directory, base, batches)
        for base, batches in new.items():
            write_segment(directory, base, batches, suffix=suffix)
        with_epoch(directory)

    return of_real_files(make, [plain(10), plain(100), plain(210), plain(300)], [plain(0), plain(200)])


def swap(story: Story) -> None:
    swap_in(story.disk, HOME, [0, 200], [0, 100, 200])


def split_live(story: Story) -> None:
    """Split a segment of an open log."""
    story.log.split_overflowed(story.log.segments[1])
    story.remove_deleted()
    story.append()
    story.log.flush()


def open_with_overflow() -> Story:
    """Open the log of ``overflowed``, and remove an index, so that the next load splits the segment."""
    before = [plain(10 * number) for number in range(10)]
    behind = [plain(LAST), plain(LAST + 10)]
    story = of_real_files(three_pieces, [*before, *LOW, *MIDDLE, *HIGH, *behind])
    story.open(recovery_point=story.synced)
    story.disk.remove(HOME / f"{OVERFLOWED:020d}.index")
    story.disk.sync_all()
    return story


def keyed() -> Story:
    """Write few keys, tombstones and transactions into several segments, all flushed."""
    story = empty()
    story.with_config(delete_retention_ms=1000)
    for number in range(8):
        story.append(size=90, key=b"%d" % (number % 3))
    story.append(2, producer=7, key=b"of 7")
    story.append(key=b"1", is_tombstone=True)
    story.new_epoch()
    story.append(2, producer=8, transactional=True, key=b"2")
    story.append(size=300, key=b"large")
    story.end_transaction(8, committed=False)
    story.append(producer=9, transactional=True, key=b"0")
    for number in range(8):
        story.append(size=120, key=b"%d" % (number % 2 * 5))
    story.end_transaction(9, committed=True)
    story.append(size=300, key=b"large")
    story.append(producer=8, transactional=True, key=b"5")
    story.end_transaction(8, committed=True)
    story.log.roll()
    story.log.flush()
    return story


def clean_twice(story: Story, look: Callable[[Story], None] = lambda _story: None) -> None:
    """Clean, let the delete horizons pass, and clean again."""
    dirty = story.clean()
    look(story)
    story.append(key=b"0")
    story.append(size=300, key=b"large")
    story.log.roll()
    story.clock.now += story.config.delete_retention_ms
    story.clean(dirty)
    look(story)
    story.remove_deleted()
    story.log.flush()


def clean(story: Story) -> None:
    """Rehearse the clean to learn the removed batches and the new forms of the others, then clean."""
    forms: dict[int, set[bytes]] = {}
    there: set[int] = set()

    def look(rehearsal: Story) -> None:
        there.clear()
        for batch in batches_of(rehearsal.log):
            forms.setdefault(batch.first, set()).add(batch.data)
            there.add(batch.first)

    rehearsal = keyed()
    clean_twice(rehearsal, look)
    assert len(there) < len(rehearsal.batches) / 2
    story.obsolete = {one.first for one in rehearsal.batches} - there
    story.forms = {first: frozenset(found) for first, found in forms.items()}
    clean_twice(story)


SCENARIOS = (
    Scenario("create", not_created, create),
    Scenario("append", filled, append),
    Scenario("append to an empty log", empty, append),
    Scenario("append, flush.messages=1", filled, flush_every_message),
    Scenario("append, synced rolls", not_created, append_with_synced_rolls),
    Scenario("roll", half_flushed, roll),
    Scenario("flush", half_flushed, flush),
    Scenario("truncate", filled, truncate),
    Scenario("truncate, unflushed", half_flushed, truncate),
    Scenario("truncate fully", filled, truncate_fully),
    Scenario("delete records", filled, delete_records),
    Scenario("retention", half_flushed, retention),
    Scenario("close", half_flushed, close),
    Scenario("close, unchanged", reopened, close),
    Scenario("rename", filled, rename),
    Scenario("move", half_flushed, move_name),
    Scenario("delete", filled, delete),
    Scenario("recover", killed, recover),
    Scenario("recover, torn", torn, recover),
    Scenario("recover lost indexes", without_indexes, recover),
    Scenario("split", overflowed, recover),
    Scenario("swap", compacted, swap),
    Scenario("recover a swap", lambda: compacted(".swap"), recover),
    Scenario("split, the log is open", open_with_overflow, split_live),
    Scenario("clean", keyed, clean),
)
