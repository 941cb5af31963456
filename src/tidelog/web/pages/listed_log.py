"""The page of a partition's directory from names and sizes alone.

It is for a directory that is no live log any longer (``-delete``, ``-stray``), and for a log that cannot be read.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tidelog.inspect.log.directory_files import describe_files
from tidelog.model import TidelogError
from tidelog.storage.log.load.leftover_files import CleanupPlan
from tidelog.storage.log.load.listing import SegmentFiles, sort_names
from tidelog.storage.segment.file_names import DirectoryPurpose, FileKind, PartitionDirectoryName
from tidelog.web import urls
from tidelog.web.page import Column, Fact, Kind, Link, Page, Row, Section, Table
from tidelog.web.pages.cluster import condition_text
from tidelog.web.request import PageRequest

_PURPOSES = {
    DirectoryPurpose.DELETE: (
        "This is a deleted log. The broker renamed it, and a background task removes it after file.delete.delay.ms"
        " (60 seconds by default). If the broker ends before that, its next start counts the delay again. Nothing"
        " reads these records any longer."
    ),
    DirectoryPurpose.STRAY: (
        "This is a stray log: by the cluster metadata, this broker should not have the partition. The broker set the"
        " log aside and never touches it again. It stays until an operator removes it."
    ),
}
_GOES = {
    DirectoryPurpose.DELETE: "file.delete.delay.ms after its deletion, or after the next start",
    DirectoryPurpose.STRAY: "never: an operator removes it",
}


def listed_log_page(request: PageRequest, trail: Sequence[Link], error: TidelogError | None) -> Page:
    """Return the page. ``error`` is the reason why the log cannot be read, if it should be readable."""
    log_dir, name = request.log_dir, request.log_name
    sizes = log_dir.fs.list_sizes(log_dir.directory(name))
    listing = sort_names(sizes, sizes)
    parsed = PartitionDirectoryName.parse(name)
    purpose = parsed.purpose
    notes = [] if error is None else [f"Only names and sizes are shown, because the log cannot be read: {error}."]
    notes += [_PURPOSES[purpose]] if purpose in _PURPOSES else []
    total = sum(max(0, size) for size in sizes.values())
    return Page(
        title=name,
        trail=trail,
        notes=notes,
        facts=[
            Fact(
                name="partition",
                value=str(parsed.topic_partition),
                kind=Kind.CODE,
                help="A long topic name is shortened in the directory's name, so this may be its beginning",
            ),
            Fact(name="purpose", title="suffix", value=purpose.value or None, kind=Kind.CODE),
            Fact(name="unique_id", value=parsed.unique_id or None, kind=Kind.CODE),
            Fact(name="condition", title="last shutdown", value=condition_text(log_dir.state())),
            Fact(name="goes", title="is removed", value=_GOES.get(purpose)),
            Fact(name="segments", value=len(listing.segments), kind=Kind.NUMBER),
            Fact(name="bytes", title="bytes of all files", value=total, kind=Kind.BYTES),
        ],
        sections=[_segments(request, listing.segments), _files(request, sizes)],
    )


def _segments(request: PageRequest, segments: Sequence[SegmentFiles]) -> Section:
    key, name = request.log_dir.key, request.log_name
    shown, paging = request.query.paged(
        "segments",
        segments,
        keys={"base_offset": lambda one: one.base_offset, "bytes": lambda one: one.sizes[FileKind.LOG]},
    )
    rows: list[Row] = [
        {
            "base_offset": one.base_offset,
            "bytes": one.sizes[FileKind.LOG],
            "index_bytes": one.sizes.get(FileKind.INDEX),
            "time_index_bytes": one.sizes.get(FileKind.TIME_INDEX),
            "txn_index_bytes": one.sizes.get(FileKind.TXN_INDEX),
        }
        for one in shown
    ]
    return Section(
        name="segments",
        title="Segments",
        table=Table(
            columns=[
                Column(
                    name="base_offset",
                    kind=Kind.NUMBER,
                    link=lambda row: urls.segment_url(key, name, int(str(row["base_offset"]))),
                ),
                Column(name="bytes", kind=Kind.BYTES),
                Column(name="index_bytes", title=".index", kind=Kind.BYTES),
                Column(name="time_index_bytes", title=".timeindex", kind=Kind.BYTES),
                Column(name="txn_index_bytes", title=".txnindex", kind=Kind.BYTES),
            ],
            rows=rows,
            paging=paging,
            empty="The directory has no segments.",
        ),
    )


def _files(request: PageRequest, sizes: Mapping[str, int]) -> Section:
    shown, paging = request.query.paged("files", describe_files(sizes, CleanupPlan()), size=50)
    return Section(
        name="files",
        title="Other files in the directory",
        table=Table(
            columns=[
                Column(name="name", kind=Kind.CODE),
                Column(name="bytes", kind=Kind.BYTES),
                Column(name="meaning", kind=Kind.SENTENCE),
            ],
            rows=[{"name": one.name, "bytes": one.size, "meaning": one.meaning} for one in shown],
            paging=paging,
            empty="All files belong to segments.",
        ),
    )
