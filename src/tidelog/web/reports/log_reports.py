"""Reports about one log that read its batches: they run in the background, and belong to the log's files.

While a process holds the directory, its files change all the time. Then a report belongs to the log's name, and is made
again when it is old.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from tidelog.inspect.batch_window import BatchWindow, read_window
from tidelog.storage.log.view.log_view import LogView
from tidelog.web import urls
from tidelog.web.jobs import LIVE_AGE_MS, Finished, JobProgress
from tidelog.web.page import Link
from tidelog.web.query import Query
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir

T = TypeVar("T")


def log_report(
    request: PageRequest, name: Hashable, work: Callable[[LogView, JobProgress], T], *, title: str
) -> Finished[T]:
    """Return the result of work on the log that the path names. Raise StillRunningError."""
    log_dir, log = request.log_dir, request.log_name
    signature, max_age_ms = freshness_of(log_dir, log)
    log_dir.directory(log)
    return request.job(
        ("log", log_dir.key, log, name),
        lambda progress: work(log_dir.view(log), progress),
        title=f"{title} of {log}",
        signature=signature,
        max_age_ms=max_age_ms,
    )


def freshness_of(log_dir: LogDir, log: str) -> tuple[Hashable, int | None]:
    """Return the signature and the largest age (ms) of a report about a log."""
    return (None, LIVE_AGE_MS) if log_dir.is_held else (log_dir.signature(log), None)


def window_of(request: PageRequest) -> BatchWindow:
    """Return the batches that the parameters ``start`` or ``end`` select, by default the last ones. Raise
    StillRunningError."""
    start, end = (request.query.integer(name, -1, minimum=-1) for name in ("start", "end"))
    return log_report(
        request,
        ("window", start, end),
        lambda view, progress: read_window(
            view,
            start=None if start < 0 else start,
            end=None if end < 0 or start >= 0 else end,
            advance=progress.advance,
        ),
        title="reading batches",
    ).value


def window_links(query: Query, window: BatchWindow) -> list[Link]:
    """Return the links to the batches before and after the window."""
    links = []
    if not window.is_first:
        links.append(Link("Earlier batches", query.with_changes({"end": str(window.start), "start": None})))
    if not window.is_last:
        links.append(Link("Later batches", query.with_changes({"start": str(window.end), "end": None})))
        links.append(Link("Newest batches", query.with_changes({"start": None, "end": None})))
    return links


def window_notes(window: BatchWindow) -> list[str]:
    """Return a sentence about each range of bytes that could not be read."""
    return [
        f"Error: {one.size_bytes:,} bytes of {one.path.name} from position {one.position:,} on are left out:"
        f" {one.reason}. The first record among them would have offset {one.offset:,} or a later one."
        for one in window.skipped
    ]


def log_trail(request: PageRequest) -> list[Link]:
    """Return the links from the cluster down to the log that the path names."""
    topic = request.partition.topic
    return [
        Link("Cluster", urls.CLUSTER),
        Link(topic, urls.topic_url(topic)),
        Link(str(request.log_dir.path), urls.log_dir_url(request.log_dir.key)),
        Link(request.log_name, urls.log_url(request.log_dir.key, request.log_name)),
    ]
