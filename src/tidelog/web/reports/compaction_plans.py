"""The compaction plans of all log directories, made in the background for the pages about the cleaner.

Logs whose topic has settings that cannot be read are left out, with a sentence about the topic.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass, replace

from tidelog.model import ConfigError, TopicPartition
from tidelog.model.internal_topics import CLUSTER_METADATA_TOPIC
from tidelog.runtime.clock import Clock
from tidelog.storage.checkpoint import CLEANER_CHECKPOINT
from tidelog.storage.log.view.directory_state import DirectoryCondition
from tidelog.storage.manager.compact.compact_plan import CompactOptions, CompactPlan, check_logs, plan_compaction
from tidelog.storage.manager.survey.setting_sources import SettingSources
from tidelog.web.jobs import Finished, JobProgress
from tidelog.web.reports.cluster_facts import is_live, known_settings
from tidelog.web.request import PageRequest
from tidelog.web.sources import LogDir

_LIVE_AGE_MS = 30_000
_AGE_MS = 300_000
"""Lags end with time, so plans of unchanged files are made again, too."""
_THREADS = 2
CHECKED_UNASKED_BYTES = 64 * 1024 * 1024
"""Due logs of at most this size together are searched for damage without being asked to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plans:
    """The plans by the key of the log directory. ``others`` counts the logs without the policy."""

    by_dir: Mapping[str, CompactPlan]
    others: int
    warnings: tuple[str, ...]

    @property
    def due_bytes(self) -> int:
        return sum(plan.bytes_to_clean for plan in self.by_dir.values())


def all_plans(request: PageRequest) -> Finished[Plans]:
    """Return the plans of all compacted logs. Raise StillRunningError."""
    settings = known_settings(request)
    live = is_live(request)

    def work(progress: JobProgress) -> Plans:
        chosen = {one.key: _compacted(settings[one.key], one.partitions()) for one in request.sources.log_dirs}
        progress.expect(sum(len(found.partitions) for found in chosen.values()), "logs")
        made = {
            one.key: _plan(one, settings[one.key], chosen[one.key].partitions, request.clock, progress)
            for one in request.sources.log_dirs
        }
        warnings = [warning for plan in made.values() for warning in plan.warnings]
        warnings += [warning for found in chosen.values() for warning in found.warnings]
        return Plans(
            by_dir=made,
            others=sum(found.others for found in chosen.values()),
            warnings=tuple(dict.fromkeys(warnings)),
        )

    return request.job(
        "cleaner",
        work,
        title="planning the next clean of every compacted log",
        signature=(live or request.sources.metadata_signature(), tuple(map(_signature, request.sources.log_dirs))),
        is_repeatable=True,
        max_age_ms=_LIVE_AGE_MS if live else _AGE_MS,
    )


def checked_plans(request: PageRequest, plans: Finished[Plans]) -> Plans:
    """Return the plans with the obstacles in the logs that are due, which are read for it. Raise StillRunningError."""

    def work(progress: JobProgress) -> Plans:
        progress.expect(plans.value.due_bytes)
        checked = {
            one.key: check_logs(one.fs, plans.value.by_dir[one.key], threads=1, advance=progress.advance)
            for one in request.sources.log_dirs
        }
        return replace(plans.value, by_dir=checked)

    title = "searching the logs that are due for damaged batches"
    return request.job("cleaner check", work, title=title, signature=plans.made_at_ms).value


def plan_of_log(request: PageRequest, partition: TopicPartition) -> Finished[CompactPlan]:
    """Return the plan of the one log that the path names. Raise StillRunningError."""
    log_dir, name = request.log_dir, request.log_name
    sources = known_settings(request)[log_dir.key]
    live = log_dir.is_held

    def work(progress: JobProgress) -> CompactPlan:
        return _plan(log_dir, sources, [partition], request.clock, progress)

    return request.job(
        ("cleaner", log_dir.key, name),
        work,
        title=f"planning the next clean of {name}",
        signature=("live" if live else log_dir.signature(name), _signature(log_dir)),
        is_repeatable=True,
        max_age_ms=_LIVE_AGE_MS if live else _AGE_MS,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Compacted:
    partitions: list[TopicPartition]
    others: int
    warnings: list[str]


def _compacted(sources: SettingSources, partitions: Iterable[TopicPartition]) -> _Compacted:
    """Return the partitions whose topic has the policy ``compact``."""
    found, others, policies, warnings = [], 0, dict[str, bool](), []
    for partition in partitions:
        topic = partition.topic
        if topic not in policies:
            try:
                policies[topic] = topic != CLUSTER_METADATA_TOPIC and sources.of_topic(topic).config.is_compacted
            except ConfigError as error:
                policies[topic] = False
                warnings.append(f"The settings of the topic {topic} cannot be read: {error}")
        if policies[topic]:
            found.append(partition)
        else:
            others += 1
    return _Compacted(partitions=found, others=others, warnings=warnings)


def _plan(
    log_dir: LogDir, sources: SettingSources, only: Iterable[TopicPartition], clock: Clock, progress: JobProgress
) -> CompactPlan:
    options = CompactOptions(sources=sources, clock=clock, threads=_THREADS)
    return plan_compaction(log_dir.fs, log_dir.path, options, only=only, advance=progress.advance)


def _signature(log_dir: LogDir) -> Hashable:
    """Return a value that changes with the names of a directory and its cleaner checkpoint. A running broker writes
    its other checkpoints every few seconds, so they count only without one."""
    state, checkpoint = log_dir.state(), log_dir.path / CLEANER_CHECKPOINT
    is_held = state.condition is DirectoryCondition.HELD
    return (
        state.condition,
        tuple(log_dir.fs.list_directories(log_dir.path)),
        log_dir.fs.stat(checkpoint) if log_dir.fs.exists(checkpoint) else None,
        None if is_held else tuple(read.stat for read in state.checkpoints.values()),
    )
