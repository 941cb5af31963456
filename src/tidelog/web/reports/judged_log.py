"""The report of one log, and the outlook of its segments at a moment.

The report is made in the background and kept until the files change; while a broker runs it is read again when it gets
old. The outlook is computed for every request from the values of the report.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.inspect.bounds import BoundKind, parse_time
from tidelog.inspect.log.report import LogReport, read_log_report
from tidelog.inspect.retention import PartitionRetention
from tidelog.model import ConfigError, TidelogError
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.manager.survey.setting_sources import SettingSources, SourcedConfig
from tidelog.web.jobs import JobProgress
from tidelog.web.reports.log_reports import log_report
from tidelog.web.request import PageRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgedLog:
    """The report was made at ``made_at_ms``, and ``retention`` is that of ``judged_at_ms``. ``notes`` are sentences
    about the settings."""

    report: LogReport
    retention: PartitionRetention
    made_at_ms: int
    judged_at_ms: int
    notes: tuple[str, ...]


def judge_log(request: PageRequest, moment: str = "") -> JudgedLog:
    """Return the log that the path names, judged as of a moment, by default now. Raise ConfigError if the moment is no
    time, StillRunningError, or an error of reading the log."""
    partition = request.partition
    wanted = _moment(moment)
    now_ms = request.now_ms
    judged_at_ms = now_ms if wanted is None else wanted
    past_ms = judged_at_ms if judged_at_ms < now_ms else None  # more records lie in the future of a past moment
    settings, sourced, notes = _settings(request)

    def work(view: LogView, progress: JobProgress) -> LogReport:
        return read_log_report(
            view,
            partition,
            settings,
            now_ms=now_ms if past_ms is None else past_ms,
            expect=progress.expect,
            advance=progress.advance,
        )

    done = log_report(request, ("segments", past_ms), work, title="reading the segments")
    return JudgedLog(
        report=done.value,
        retention=done.value.retention.judged(judged_at_ms, sourced),
        made_at_ms=done.made_at_ms,
        judged_at_ms=judged_at_ms,
        notes=notes,
    )


def _moment(text: str) -> int | None:
    if not text:
        return None
    bound = parse_time(text)
    if bound.kind is not BoundKind.TIMESTAMP:
        raise ConfigError(f"the parameter now must be a time, not {text!r}")
    return bound.number


def _settings(request: PageRequest) -> tuple[SettingSources, SourcedConfig, tuple[str, ...]]:
    """Return the sources of settings and the topic's, with notes. Settings that Kafka refuses count as its defaults."""
    topic = request.partition.topic
    found = request.settings()
    try:
        sourced = found.of_topic(topic)
    except TidelogError as error:
        default = SettingSources()
        return default, default.of_topic(topic), (f"Kafka's defaults are used, because of a setting: {error.message}.",)
    if found.metadata_from is None:
        return found, sourced, ("There is no cluster metadata here, so the settings are Kafka's defaults.",)
    return found, sourced, ()
