"""Crash states around the swap of a cleaned segment, made by renaming, and how loading handles them.

The stages are those of Kafka's LogCleanerTest. ``tests/crash`` simulates a power cut at every call.
"""

from __future__ import annotations

import pytest

from overflowed_log import LAST, OVERFLOWED, PIECES, three_pieces
from storage.cleaner.clean_home import CleanHome, keys, records
from tidelog.model import LogCleaningAbortedError
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.segment.file_names import SEGMENT_KINDS, FileKind, FileState, segment_file


def cleaned(home: CleanHome) -> tuple[list[int], list[int]]:
    """Clean nine segments into one and close the log. Return the keys before and after the clean."""
    log = home.open(segment_bytes=300)
    home.fill(log, 10)
    log.flush()
    before = keys(log)
    home.rewrite(log, log.segments[:9], obsolete=range(1, log.end_offset, 2))
    after = keys(log)
    log.close()
    assert len(after) < len(before)
    return before, after


def rename(home: CleanHome, source: FileState, target: FileState, *kinds: FileKind) -> None:
    for kind in kinds or SEGMENT_KINDS:
        path = segment_file(home.directory, 0, kind, source)
        if path.exists():
            path.rename(segment_file(home.directory, 0, kind, target))


def undelete(home: CleanHome) -> None:
    for path in home.directory.glob("*.deleted"):
        path.rename(path.with_name(path.name.removesuffix(".deleted")))


def loaded(home: CleanHome) -> PartitionLog:
    return home.open(segment_bytes=300, clean=False)


def leftovers(home: CleanHome) -> list[str]:
    states = tuple(state for state in FileState if state)
    return [path.name for path in home.directory.iterdir() if path.name.endswith(states)]


class TestStages:
    @pytest.mark.parametrize("some_swapped", [False, True])
    def test_before_all_are_named_swap_it_never_was(self, home: CleanHome, some_swapped: bool) -> None:
        before, _ = cleaned(home)
        rename(home, FileState.LIVE, FileState.CLEANED)
        if some_swapped:
            rename(home, FileState.CLEANED, FileState.SWAP, FileKind.LOG)
        undelete(home)
        assert keys(loaded(home)) == before
        assert leftovers(home) == []

    @pytest.mark.parametrize("deleted", [False, True], ids=["none of the old is deleted", "all of them are"])
    def test_from_then_on_it_is_done(self, home: CleanHome, deleted: bool) -> None:
        _, after = cleaned(home)
        rename(home, FileState.LIVE, FileState.SWAP)
        if not deleted:
            undelete(home)
        assert keys(loaded(home)) == after
        assert leftovers(home) == []

    def test_some_have_their_names(self, home: CleanHome) -> None:
        _, after = cleaned(home)
        rename(home, FileState.LIVE, FileState.SWAP, FileKind.TIME_INDEX)
        assert keys(loaded(home)) == after
        assert leftovers(home) == []

    def test_all_but_the_removal_is_done(self, home: CleanHome) -> None:
        _, after = cleaned(home)
        assert leftovers(home) != []
        log = loaded(home)
        assert keys(log) == after
        assert leftovers(home) == []

    def test_it_is_cleaned_again(self, home: CleanHome) -> None:
        before, _ = cleaned(home)
        rename(home, FileState.LIVE, FileState.CLEANED)
        undelete(home)
        log = loaded(home)
        home.rewrite(log, log.segments[:9], obsolete=range(1, log.end_offset, 2))
        assert keys(log) == [key for key in before if key % 2 == 0 or key >= log.base_offsets[-1]]


def test_a_segment_with_offsets_that_overflow_is_split_and_then_cleaned(home: CleanHome) -> None:
    three_pieces(home.directory)
    log = home.open()
    before = records(log)
    with pytest.raises(LogCleaningAbortedError, match="the segment was split"):
        home.clean(log)
    assert log.base_offsets == [0, *PIECES, LAST]
    assert records(log) == [record for record in before if record.offset >= OVERFLOWED]  # those below are cleaned
    assert home.files(".log.cleaned") == []
    assert home.clean(log).next_dirty_offset == LAST
    last = max(PIECES) + 2
    assert [record.offset for record in records(log)] == [last, *range(LAST, LAST + 20)]
