"""The retention of all logs, surveyed in the background for the page about it.

The survey may judge as of another time, and by other settings. Topics whose settings cannot be read count with Kafka's
defaults, and a sentence names them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tidelog.inspect.bounds import BoundKind, parse_time
from tidelog.inspect.durations import parse_duration
from tidelog.inspect.retention.summary import LogRetention, summarize_retention
from tidelog.inspect.retention.totals import RetentionTotals, added_up, by_topic, freed_order, totals_of_log
from tidelog.inspect.space import PartitionSpace, survey_space
from tidelog.model import ConfigError
from tidelog.storage.manager.survey.setting_sources import SettingSources, SourcedConfig
from tidelog.storage.segment.file_names import DirectoryPurpose
from tidelog.web.jobs import Finished, JobProgress
from tidelog.web.query import Query
from tidelog.web.reports.cluster_facts import is_live, known_settings
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir

RETENTION_MS, RETENTION_BYTES = "retention.ms", "retention.bytes"
_LIVE_AGE_MS, _AGE_MS = 60_000, 300_000
_THREADS = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """The parameters of the survey. ``now_ms`` is None for the time of the survey. ``overrides`` are settings that
    count for every topic."""

    now_ms: int | None
    overrides: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionSurvey:
    """``logs`` has the totals of each log. Like ``topics``, it begins with the most freed bytes. ``leaving`` are the
    directories that are being removed, and the stray ones."""

    now_ms: int
    everything: RetentionTotals
    topics: Sequence[RetentionTotals]
    logs: Sequence[RetentionTotals]
    dirs: Mapping[Path, LogDir]
    leaving: Sequence[PartitionSpace]
    warnings: Sequence[str]

    def dir_of(self, log: LogRetention) -> LogDir:
        return self.dirs[log.directory.parent]


def tried_settings(query: Query) -> Tried:
    """Read the parameters ``now``, ``retention.ms`` (also a duration such as 7d) and ``retention.bytes``. Raise
    ConfigError for invalid values."""
    now = query.text("now")
    overrides = {name: text for name in (RETENTION_MS, RETENTION_BYTES) if (text := query.text(name).strip())}
    if RETENTION_MS in overrides and overrides[RETENTION_MS][-1].isalpha():
        overrides[RETENTION_MS] = str(parse_duration(overrides[RETENTION_MS]))
    SettingSources(overrides=overrides).of_topic("")
    if not now:
        return Tried(now_ms=None, overrides=overrides)
    bound = parse_time(now)
    if bound.kind is not BoundKind.TIMESTAMP:
        raise ConfigError(f"the parameter now must be a time, such as 2024-05-01T10:30:00Z: {now}")
    return Tried(now_ms=bound.number, overrides=overrides)


def survey_all(request: PageRequest, tried: Tried) -> Finished[RetentionSurvey]:
    """Return the survey of all logs. Raise StillRunningError."""
    settings = known_settings(request)
    live = is_live(request)
    log_dirs = request.sources.log_dirs

    def work(progress: JobProgress) -> RetentionSurvey:
        progress.expect(sum(len(one.partitions()) for one in log_dirs), "logs")
        now_ms = request.now_ms if tried.now_ms is None else tried.now_ms
        warnings: list[str] = []
        logs: list[LogRetention] = []
        for one in log_dirs:
            sources = replace(settings[one.key], overrides=tried.overrides)
            logs += summarize_retention(
                one.fs,
                one.path,
                _lenient(sources, warnings),
                sources.metadata,
                now_ms=now_ms,
                threads=_THREADS,
                advance=progress.advance,
            )
        each = sorted((totals_of_log(log, now_ms) for log in logs), key=freed_order)
        topics = by_topic(each)
        return RetentionSurvey(
            now_ms=now_ms,
            everything=added_up(topics),
            topics=topics,
            logs=each,
            dirs={one.path: one for one in log_dirs},
            leaving=_leaving(log_dirs),
            warnings=list(dict.fromkeys(warnings)),
        )

    names = tuple(tuple(one.fs.list_directories(one.path)) for one in log_dirs)
    stats = tuple(tuple(read.stat for read in one.state().checkpoints.values()) for one in log_dirs)
    is_fixed = tried.now_ms is not None and not live
    return request.job(
        ("retention", tried.now_ms, tuple(sorted(tried.overrides.items()))),
        work,
        title="asking the retention rules about every segment",
        signature=(names, live or (stats, request.sources.metadata_signature())),
        is_repeatable=True,
        max_age_ms=None if is_fixed else _LIVE_AGE_MS if live else _AGE_MS,
    )


def _lenient(sources: SettingSources, warnings: list[str]) -> Callable[[str], SourcedConfig]:
    """Return a function for several threads that returns a topic's settings, once made."""
    known: dict[str, SourcedConfig] = {}
    lock = threading.Lock()

    def settings_of(topic: str) -> SourcedConfig:
        with lock:
            if topic not in known:
                try:
                    known[topic] = sources.of_topic(topic)
                except ConfigError as error:
                    warnings.append(f"The settings of the topic {topic} cannot be read: {error}; defaults count")
                    known[topic] = SettingSources(overrides=sources.overrides).of_topic("")
            return known[topic]

    return settings_of


def _leaving(log_dirs: Sequence[LogDir]) -> list[PartitionSpace]:
    purposes = (DirectoryPurpose.DELETE, DirectoryPurpose.STRAY)
    found = []
    for one in log_dirs:
        names = [name for name, parsed in one.directories() if parsed.purpose in purposes]
        found += survey_space(one.fs, one.path, names)
    return found
