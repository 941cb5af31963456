"""The producers of all given log directories by the newest snapshots, and the setting that lets them expire."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeVar

from tidelog.inspect.producers import OnEntries, ProducerTotal, SnapshotSummary, survey_snapshots
from tidelog.model import CancelledError, ConfigError, TidelogError
from tidelog.storage.producer.entry import ProducerEntry
from tidelog.storage.producer.state import PRODUCER_ID_EXPIRATION_MS
from tidelog.web.jobs import LIVE_AGE_MS, Finished, JobProgress
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir, Sources

T = TypeVar("T")
MOST_PRODUCERS: Final = 50_000
"""The producers of a list. Those with open transactions and those in most logs come first."""
_ANY_TOPIC: Final = ""
"""The setting is the broker's, so every topic has the same."""
EXPIRATION_KEY: Final = "producer.id.expiration.ms"


@dataclass(frozen=True, slots=True)
class Expiration:
    """``producer.id.expiration.ms``, and a word or two about its source."""

    ms: int
    origin: str


def expiration_of(sources: Sources, log_dir: LogDir) -> Expiration:
    """Return the setting by the cluster metadata. A broker's properties file is not in a log directory."""
    try:
        found = sources.settings(log_dir).of_topic(_ANY_TOPIC)
    except ConfigError:
        return Expiration(PRODUCER_ID_EXPIRATION_MS, "default")
    return Expiration(found.config.producer_id_expiration_ms, found.origins.get(EXPIRATION_KEY, "default"))


@dataclass(frozen=True, slots=True)
class LogSnapshots:
    """The snapshots of a log in the directory with this key."""

    key: str
    summary: SnapshotSummary


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerReport:
    logs: Sequence[LogSnapshots]
    producers: Sequence[ProducerTotal]
    """The first ``MOST_PRODUCERS``, sorted by id."""
    producer_count: int
    expirations: Mapping[str, Expiration]
    """The settings by the key of a log directory."""
    errors: Sequence[TidelogError] = ()


@dataclass(frozen=True, slots=True)
class ProducerInLog:
    """A producer's entry in the newest snapshot of a log."""

    key: str
    log: str
    entry: ProducerEntry


def producer_report(request: PageRequest) -> Finished[ProducerReport]:
    """Return the report. Raise StillRunningError."""
    return _over_logs(request, "producers", partial(_report, request.sources, request.now_ms))


def find_producer(request: PageRequest, producer_id: int) -> Finished[Sequence[ProducerInLog]]:
    """Return a producer's entry in each log that knows it, sorted by log. Raise StillRunningError."""
    return _over_logs(request, ("producer", producer_id), partial(_find, request.sources, producer_id))


def _over_logs(request: PageRequest, key: Hashable, work: Callable[[JobProgress], T]) -> Finished[T]:
    """Run work that reads the newest snapshot of each log. The report ages, because there is no cheap signature."""
    names = tuple((one.key, one.state().condition, tuple(one.partitions())) for one in request.sources.log_dirs)
    return request.job(
        key, work, title="reading the producer snapshots", signature=names, is_repeatable=True, max_age_ms=LIVE_AGE_MS
    )


def _names(log_dir: LogDir) -> list[str]:
    return [partition.directory_name for partition in log_dir.partitions()]


def _report(sources: Sources, now_ms: int, progress: JobProgress) -> ProducerReport:
    totals: dict[int, ProducerTotal] = {}

    def add(_name: str, entries: Sequence[ProducerEntry]) -> None:
        for entry in entries:
            total = totals.get(entry.producer_id)
            if total is None:
                total = totals[entry.producer_id] = ProducerTotal(producer_id=entry.producer_id)
            total.add(entry)

    expirations = {one.key: expiration_of(sources, one) for one in sources.log_dirs}
    before_ms = {key: now_ms - one.ms for key, one in expirations.items()}
    logs, errors = _survey(sources, before_ms, lambda _key: add, progress)
    listed = sorted(totals.values(), key=lambda one: (-one.open, -one.logs, one.producer_id))[:MOST_PRODUCERS]
    return ProducerReport(
        logs=logs,
        producers=sorted(listed, key=lambda one: one.producer_id),
        producer_count=len(totals),
        expirations=expirations,
        errors=errors,
    )


def _find(sources: Sources, producer_id: int, progress: JobProgress) -> list[ProducerInLog]:
    found: list[ProducerInLog] = []

    def collect(key: str) -> OnEntries:
        def take(name: str, entries: Sequence[ProducerEntry]) -> None:
            found.extend(ProducerInLog(key, name, entry) for entry in entries if entry.producer_id == producer_id)

        return take

    _survey(sources, dict.fromkeys((one.key for one in sources.log_dirs), 0), collect, progress)
    return sorted(found, key=lambda one: (one.log, one.key))


def _survey(
    sources: Sources,
    expired_before_ms: Mapping[str, int],
    on_entries: Callable[[str], OnEntries],
    progress: JobProgress,
) -> tuple[list[LogSnapshots], list[TidelogError]]:
    names = {one.key: _names(one) for one in sources.log_dirs}
    progress.expect(sum(map(len, names.values())), "logs")
    found: list[LogSnapshots] = []
    errors: list[TidelogError] = []
    for one in sources.log_dirs:
        try:
            summaries = survey_snapshots(
                one.fs,
                one.path,
                names[one.key],
                expired_before_ms=expired_before_ms[one.key],
                on_entries=on_entries(one.key),
                advance=progress.advance,
            )
        except CancelledError:
            raise
        except TidelogError as error:
            errors.append(error)
            continue
        found += [LogSnapshots(one.key, summary) for summary in summaries]
    return found, errors
