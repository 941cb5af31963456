"""Groups of segments that are rewritten into one: by size, by index size, by the range of relative offsets."""

from __future__ import annotations

import pytest

from log_maker import plain, write_segment
from storage.cleaner.clean_home import CleanHome
from tidelog.storage.cleaner.clean.segment_groups import SegmentSizes, group_segments
from tidelog.storage.log.partition_log import PartitionLog
from tidelog.storage.log.state.log_config import LogConfig

REACH = 2**31 - 1
WIDE = {"segment_bytes": REACH, "segment_index_bytes": REACH}


def groups(log: PartitionLog, *, first_uncleanable: int | None = None, **config: int) -> list[list[int]]:
    """Return the groups as base offsets, including the active segment's."""
    sizes = [SegmentSizes.of(segment) for segment in log.segments]
    end = log.end_offset if first_uncleanable is None else first_uncleanable
    found = group_segments(sizes, LogConfig(**(WIDE | config)), first_uncleanable=end)  # type: ignore[arg-type]
    return [[log.base_offsets[number] for number in group] for group in found]


class TestBySize:
    def filled(self, home: CleanHome) -> PartitionLog:
        log = home.open(segment_bytes=300)
        while len(log.base_offsets) < 10:
            home.put(log, (1, 1))
        return log

    def test_all_in_one_where_they_fit(self, home: CleanHome) -> None:
        log = self.filled(home)
        assert groups(log) == [log.base_offsets]

    def test_each_alone_where_none_fits(self, home: CleanHome) -> None:
        log = self.filled(home)
        alone = [[base] for base in log.base_offsets]
        assert groups(log, segment_bytes=14) == alone
        assert groups(log, segment_index_bytes=12) == alone

    @pytest.mark.parametrize(("more", "fit"), [(1, 3), (0, 3), (-1, 2)], ids=["room", "exactly", "a byte too few"])
    def test_as_many_as_fit(self, home: CleanHome, more: int, fit: int) -> None:
        """Three segments form a group if they fit with a byte to spare or exactly, but not if one byte is missing."""
        log = self.filled(home)
        three = log.segments[:3]
        by_size = groups(log, segment_bytes=sum(segment.size for segment in three) + more)
        by_index = groups(log, segment_index_bytes=sum(segment.offset_index.size_bytes for segment in three) + more)
        for found in (by_size, by_index):
            assert [len(group) for group in found[:-1]] == [fit] * (len(found) - 1)
            assert [base for group in found for base in group] == log.base_offsets


def test_time_indexes_count_too() -> None:
    config = LogConfig(segment_bytes=1000, segment_index_bytes=100)
    sizes = [SegmentSizes(base, 10, 10, time_index) for base, time_index in ((0, 60), (1, 40), (2, 1))]
    assert group_segments(sizes, config, first_uncleanable=3) == [range(2), range(2, 3)]


def test_no_segments_no_groups() -> None:
    assert group_segments([], LogConfig(), first_uncleanable=0) == []


class TestByReach:
    def test_two_segments_just_within_it(self, home: CleanHome) -> None:
        log = self.two(home, REACH)
        assert groups(log, first_uncleanable=REACH + 1) == [log.base_offsets]
        assert groups(log, first_uncleanable=REACH + 2) == [[base] for base in log.base_offsets]

    def two(self, home: CleanHome, last: int) -> PartitionLog:
        write_segment(home.directory, 0, [plain(0)])
        write_segment(home.directory, 100, [plain(100), plain(last, 1)])
        return home.open()

    def test_further_segments_are_grouped_by_themselves(self, home: CleanHome) -> None:
        write_segment(home.directory, 0, [plain(0)])
        for base in (REACH - 5, REACH + 20, REACH + 40):
            write_segment(home.directory, base, [plain(base)])
        log = home.open()
        assert groups(log) == [[0], [REACH - 5, REACH + 20, REACH + 40]]

    def test_an_index_without_entries_says_nothing_of_it(self, home: CleanHome) -> None:
        """The index entries are so far apart that no index holds the last offset."""
        write_segment(home.directory, 0, [plain(0, 1), plain(1, 1)], interval_bytes=10_000)
        write_segment(home.directory, REACH // 2, [plain(REACH // 2, 1), plain(REACH + 1, 1)], interval_bytes=10_000)
        log = home.open(index_interval_bytes=10_000)
        assert log.segments[1].offset_index.entries == 0
        assert groups(log) == [[0], [REACH // 2]]

    def test_empty_segments_are_grouped_however_far_apart(self, home: CleanHome) -> None:
        """Three segments span 2^31 offsets each. A clean empties two, and the next clean removes the empty segments."""
        for number in range(3):
            base = number * (REACH + 1)
            write_segment(home.directory, base, [plain(base, 1), plain(base + REACH, 1)])
        write_segment(home.directory, 3 * (REACH + 1), [plain(3 * (REACH + 1), 1)])
        log = home.open()
        bases = log.base_offsets
        assert groups(log)[:3] == [[base] for base in bases[:3]]
        home.clean(log)
        assert log.base_offsets == bases
        assert [segment.size for segment in log.segments[:2]] == [0, 0]
        assert groups(log)[0] == bases[:2]
        home.clean(log)
        assert log.base_offsets == [0, *bases[2:]]
