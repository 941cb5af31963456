"""The segment that a URL names, also if a start of the broker would delete it, and its batches' boundaries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.inspect.batch_walk import Place, PlaceKind, known_boundary, locate_batch
from tidelog.inspect.segment_survey import SegmentSurvey, survey_segment_log
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.view_state import ViewSegment
from tidelog.storage.segment.file_names import FileKind, FileState
from tidelog.storage.segment.segment_reader import SegmentReader
from tidelog.web import urls
from tidelog.web.jobs import LIVE_AGE_MS, JobProgress
from tidelog.web.page import Link
from tidelog.web.reports.log_trail import log_trail
from tidelog.web.request import PageRequest
from tidelog.web.sources import NotFoundError

WALK_BYTES: Final = 8 * 1024 * 1024
"""The bytes that a page reads to find the batch at a position."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPlace:
    """``segment`` is None for files that do not count as a part of the log."""

    request: PageRequest
    view: LogView
    base_offset: int
    state: FileState
    segment: ViewSegment | None

    @property
    def title(self) -> str:
        return f"Segment {self.base_offset}"

    @property
    def url(self) -> str:
        return urls.segment_url(self.request.log_dir.key, self.request.log_name, self.base_offset)

    def batch_url(self, position: int) -> str:
        return urls.batch_url(self.request.log_dir.key, self.request.log_name, self.base_offset, position)

    def records_url(self, offset: int) -> str:
        return urls.records_url(self.request.log_dir.key, self.request.log_name, start=offset)

    @property
    def is_active(self) -> bool:
        """True for the segment that a broker appends to."""
        return self.segment is not None and self.base_offset == self.view.state.log_end.segment_base_offset

    @property
    def valid_end(self) -> int | None:
        """The position where reading ends, or None for the end of the file."""
        return None if self.segment is None else self.view.state.end_position(self.segment)

    def trail(self) -> list[Link]:
        return log_trail(self.request)

    def open(self) -> SegmentReader:
        """Open the ``.log``. Raise FileMissingError if it is gone."""
        return SegmentReader(self.view.fs, self.view.directory, self.base_offset, state=self.state)

    def survey(self) -> SegmentSurvey:
        """Return the facts of all batches. Raise StillRunningError."""

        def work(progress: JobProgress) -> SegmentSurvey:
            with self.open() as reader:
                progress.expect(reader.size)
                return survey_segment_log(reader, progress.advance)

        request = self.request
        grows = self.is_active and self.view.condition is DirectoryCondition.HELD
        size = None if self.segment is None else self.segment.size
        return request.job(
            ("segment", request.log_dir.key, request.log_name, self.base_offset, self.state),
            work,
            title=f"reading the segment {self.base_offset} of {request.log_name}",
            signature=None if grows else (size, self.valid_end),
            max_age_ms=LIVE_AGE_MS if grows else None,
        ).value

    def locate(self, reader: SegmentReader, position: int) -> Place:
        """Tell where a position lies among the batches. Raise StillRunningError if the index does not help."""
        marks: Sequence[int] = ()
        found = locate_batch(reader, position, start=known_boundary(reader, position), most_bytes=WALK_BYTES)
        if found.kind is PlaceKind.UNKNOWN:
            marks = self.survey().marks
            start = known_boundary(reader, position, marks)
            found = locate_batch(reader, position, start=start, most_bytes=reader.size)
        return found


def find_segment(request: PageRequest) -> SegmentPlace:
    """Return the segment that the path names. Raise NotFoundError, or StillRunningError while its log is loaded."""
    base_offset = request.number("base")
    view = request.view()
    state = view.state
    segment = state.segments.floor(base_offset)
    if segment is not None and segment.base_offset == base_offset:
        return SegmentPlace(
            request=request, view=view, base_offset=base_offset, state=segment.files.state, segment=segment
        )
    listing = state.listing
    states = [files.state for files in (*listing.segments, *listing.swaps) if files.base_offset == base_offset]
    states += [
        file.state
        for file in (*listing.invalid_swaps, *listing.cleaned, *listing.deleted)
        if file.offset == base_offset and file.kind is FileKind.LOG
    ]
    if not states:
        raise NotFoundError(f"the log has no segment {base_offset}", path=view.directory)
    return SegmentPlace(request=request, view=view, base_offset=base_offset, state=states[0], segment=None)
