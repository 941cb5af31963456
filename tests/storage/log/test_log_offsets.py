"""The offsets of a log: moving one offset pulls the others along. Positions can be compared."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.kernel import LogOffsets
from tidelog.model import LogOffsetMetadata


def place(offset: int, segment: int = 0, position: int = 0) -> LogOffsetMetadata:
    return LogOffsetMetadata(offset, segment, position)


def offsets(start: int = 0, end: int = 100, recovery_point: int = 0) -> LogOffsets:
    return LogOffsets(log_start=start, log_end=place(end), recovery_point=recovery_point)


class TestPlaces:
    def test_segments_are_compared(self) -> None:
        assert place(1, 0, 500).is_on_older_segment(place(9, 5, 0))
        assert not place(9, 5, 0).is_on_older_segment(place(9, 5, 0))
        assert place(9, 5, 0).is_on_same_segment(place(8, 5, 70))
        assert not place(9, 5, 0).is_on_same_segment(place(9, 9, 0))

    def test_distances(self) -> None:
        assert place(20, 5, 700).bytes_after(place(9, 5, 40)) == 660
        with pytest.raises(ValueError, match="different segments"):
            place(20, 5, 700).bytes_after(place(4, 0, 40))

    def test_an_offset_without_a_place_has_no_segment_to_compare(self) -> None:
        known, unknown = place(20, 5, 700), LogOffsetMetadata(9)
        assert unknown.is_offset_only
        assert not known.is_offset_only
        for left, right in ((known, unknown), (unknown, known)):
            for compare in (left.is_on_older_segment, left.is_on_same_segment, left.bytes_after):
                with pytest.raises(ValueError, match="is not known"):
                    compare(right)


class TestHighWatermark:
    def test_it_begins_at_the_log_start(self) -> None:
        assert offsets(start=7).high_watermark == LogOffsetMetadata(7)

    @pytest.mark.parametrize(("wanted", "expected"), [(0, 10), (9, 10), (10, 10), (55, 55), (100, 100), (101, 100)])
    def test_an_update_is_clamped(self, wanted: int, expected: int) -> None:
        assert offsets(start=10).update_high_watermark(LogOffsetMetadata(wanted)).message_offset == expected

    def test_at_the_log_end_it_has_its_place(self) -> None:
        log = offsets()
        assert log.update_high_watermark(LogOffsetMetadata(100)) == log.log_end

    def test_an_update_may_go_back(self) -> None:
        log = offsets()
        log.update_high_watermark(LogOffsetMetadata(80))
        assert log.update_high_watermark(LogOffsetMetadata(30)).message_offset == 30

    def test_an_increment_only_goes_forward(self) -> None:
        log = offsets()
        assert log.maybe_increment_high_watermark(place(50, 0, 400)) == LogOffsetMetadata(0)
        assert log.maybe_increment_high_watermark(place(40, 0, 300)) is None
        assert log.maybe_increment_high_watermark(place(50, 0, 400)) is None
        assert log.high_watermark == place(50, 0, 400)

    def test_an_increment_to_a_newer_segment_at_the_same_offset(self) -> None:
        log = offsets()
        log.maybe_increment_high_watermark(place(50, 0, 400))
        assert log.maybe_increment_high_watermark(place(50, 50, 0)) == place(50, 0, 400)
        assert log.high_watermark == place(50, 50, 0)

    def test_an_increment_past_the_log_end_is_refused(self) -> None:
        log = offsets()
        with pytest.raises(ValueError, match="101 is past the log end 100"):
            log.maybe_increment_high_watermark(place(101))

    def test_who_listens_is_told_each_new_one(self) -> None:
        log = offsets()
        told: list[int] = []
        log.on_high_watermark = told.append
        log.update_high_watermark(LogOffsetMetadata(30))
        log.update_high_watermark(LogOffsetMetadata(30))
        log.maybe_increment_high_watermark(place(60))
        log.maybe_increment_high_watermark(place(20))
        log.set_log_start(70)
        log.set_log_end(place(40))
        log.restart(log_start=5, at=place(5))
        assert told == [30, 60, 70, 40, 5]


class TestOthersFollow:
    def test_a_log_that_is_cut_takes_them_down(self) -> None:
        log = offsets(recovery_point=90)
        log.update_high_watermark(LogOffsetMetadata(80))
        log.set_log_end(place(60))
        assert (log.high_watermark, log.recovery_point) == (place(60), 60)

    def test_a_log_that_grows_leaves_them(self) -> None:
        log = offsets(recovery_point=90)
        log.update_high_watermark(LogOffsetMetadata(80))
        log.set_log_end(place(160))
        assert (log.high_watermark.message_offset, log.recovery_point) == (80, 90)

    def test_a_roll_gives_the_high_watermark_at_the_log_end_its_new_place(self) -> None:
        log = offsets()
        log.update_high_watermark(LogOffsetMetadata(100))
        log.set_log_end(place(100, 100, 0))
        assert log.high_watermark == place(100, 100, 0)

    def test_a_log_start_above_them_takes_them_up(self) -> None:
        log = offsets(recovery_point=3)
        log.set_log_start(30)
        assert (log.log_start, log.high_watermark.message_offset, log.recovery_point) == (30, 30, 30)

    def test_a_log_that_begins_anew(self) -> None:
        log = offsets(recovery_point=90)
        log.restart(log_start=40, at=place(50, 50, 0))
        assert (log.log_start, log.high_watermark, log.log_end) == (40, place(50, 50, 0), place(50, 50, 0))
        assert log.recovery_point == 50


@given(
    st.lists(
        st.tuples(st.sampled_from(["end", "start", "update", "increment", "flush"]), st.integers(0, 200)), max_size=30
    )
)
def test_they_stay_in_order(steps: list[tuple[str, int]]) -> None:
    """Log start, high watermark and log end stay sorted, and the recovery point stays at or below the log end."""
    log = offsets()
    for step, offset in steps:
        match step:
            case "end":
                log.set_log_end(place(max(offset, log.log_start)))
            case "start":
                log.set_log_start(max(log.log_start, min(offset, log.high_watermark.message_offset)))
            case "update":
                log.update_high_watermark(LogOffsetMetadata(offset))
            case "flush":
                log.note_synced(min(offset, log.log_end.message_offset))
            case _ if offset <= log.log_end.message_offset and offset != log.high_watermark.message_offset:
                log.maybe_increment_high_watermark(LogOffsetMetadata(offset))
        assert log.log_start <= log.high_watermark.message_offset <= log.log_end.message_offset
        assert log.recovery_point <= log.log_end.message_offset
