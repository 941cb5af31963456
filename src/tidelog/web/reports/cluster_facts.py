"""The cluster metadata and the topics' settings, read in the background for the pages.

A metadata log of a large cluster takes seconds to read. While a process holds a log directory, its metadata log grows
twice a second: the facts are then read again when they are older than ten seconds, and not for each change.
Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import TypeVar

from tidelog.server.metadata.kraft.newest_metadata import NewestMetadata, read_newest_metadata
from tidelog.storage.manager.survey.setting_sources import SettingSources
from tidelog.web.jobs import JobProgress
from tidelog.web.request import PageRequest

T = TypeVar("T")
FACTS_AGE_MS = 10_000


def is_live(request: PageRequest) -> bool:
    """Return True if a process holds one of the log directories."""
    return any(one.is_held for one in request.sources.log_dirs)


def known_settings(request: PageRequest) -> Mapping[str, SettingSources]:
    """Return the sources of topics' settings by the key of the log directory. Raise StillRunningError."""
    sources = request.sources
    return _job(
        request,
        "settings",
        lambda _progress: {one.key: sources.settings(one) for one in sources.log_dirs},
        "reading the topics' settings in the cluster metadata",
    )


def known_metadata(request: PageRequest) -> NewestMetadata:
    """Return the newest cluster metadata among the log directories. Raise StillRunningError."""
    paths = [one.path for one in request.sources.log_dirs]
    return _job(request, "metadata", lambda _progress: read_newest_metadata(paths), "reading the cluster metadata")


def _job(request: PageRequest, key: Hashable, work: Callable[[JobProgress], T], title: str) -> T:
    live = is_live(request)
    return request.job(
        key,
        work,
        title=title,
        signature=live or request.sources.metadata_signature(),
        max_age_ms=FACTS_AGE_MS if live else None,
    ).value
