"""The request of a page: the log directories, the parts of the path, the query, and the work in the background."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import TypeVar

from tidelog.model import TopicPartition
from tidelog.runtime.clock import SYSTEM_CLOCK, Clock
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.manager.survey.setting_sources import SettingSources
from tidelog.storage.segment.file_names import PartitionDirectoryName
from tidelog.web.broker_link import Broker
from tidelog.web.jobs import LIVE_AGE_MS, Finished, JobProgress, Jobs
from tidelog.web.query import Query
from tidelog.web.sources import LogDir, NotFoundError, Sources

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class PageRequest:
    """``path`` has the named parts of the URL's path."""

    sources: Sources
    jobs: Jobs
    path: Mapping[str, str] = field(default_factory=dict)
    query: Query = field(default_factory=Query)
    clock: Clock = SYSTEM_CLOCK
    broker: Broker | None = None
    """The running broker of the log directories, or None."""

    @property
    def now_ms(self) -> int:
        return self.clock.now_ms()

    @property
    def log_dir(self) -> LogDir:
        """The log directory that the path names. Raises NotFoundError."""
        return self.sources.log_dir(self.path["dir"])

    @property
    def log_name(self) -> str:
        """The name of the partition's directory that the path names."""
        return self.path["log"]

    @property
    def partition(self) -> TopicPartition:
        """The partition that the path names."""
        self.log_dir.directory(self.log_name)
        return PartitionDirectoryName.parse(self.log_name).topic_partition

    def number(self, part: str) -> int:
        """Return a number of the path. Raise NotFoundError if it is none."""
        text = self.path[part]
        if not (text.isascii() and text.isdigit()) or len(text) > 20:
            raise NotFoundError(f"{text} is not a number")
        return int(text)

    def view(self) -> LogView:
        """Return the loaded view of the log that the path names. Raise StillRunningError while that takes long."""
        log_dir, name = self.log_dir, self.log_name
        return self.job(
            ("view", log_dir.key, name),
            lambda _progress: log_dir.view(name),
            title=f"reading the unflushed segments of {name}",
            signature=log_dir.signature(name),
        ).value

    def job(
        self,
        key: Hashable,
        work: Callable[[JobProgress], T],
        *,
        title: str,
        signature: Hashable = None,
        is_repeatable: bool = False,
        max_age_ms: int | None = None,
    ) -> Finished[T]:
        """Return the result of work in the background; see ``Jobs.result``. With ``is_repeatable``, the parameter
        ``newer`` (ms since 1970) asks for a result that was made later."""
        # A later time would make each request begin the work again.
        newer_than_ms = self.query.integer("newer", -1, minimum=-1, maximum=self.now_ms) if is_repeatable else -1
        return self.jobs.result(
            key, work, title=title, signature=signature, newer_than_ms=newer_than_ms, max_age_ms=max_age_ms
        )

    def settings(self) -> SettingSources:
        """Return the sources of topics' settings for the log directory that the path names. Raise StillRunningError.

        A running broker's metadata log grows all the time, so they are not read again for every request.
        """
        log_dir = self.log_dir
        return self.job(
            ("settings", log_dir.key),
            lambda _progress: self.sources.settings(log_dir),
            title="reading the settings of topics",
            max_age_ms=LIVE_AGE_MS,
        ).value
