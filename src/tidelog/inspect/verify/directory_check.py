"""The ``verify`` check of whole log directories: partitions in parallel, then the checkpoints.

The outlook on a partition is a sentence about a broker's actions on it at the next start. It is made from the plan that
``recover`` applies and from the log end that a reader finds, so it names the bytes that would be truncated. The module
only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.inspect.verify.finding import Finding, Severity
from tidelog.inspect.verify.partition_check import KnownElsewhere, check_batches_file, check_partition
from tidelog.inspect.verify.state_check import check_offset_in_log
from tidelog.model import TidelogError, TopicPartition
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.runtime.parallel import run_parallel, usable_processors
from tidelog.runtime.progress import one_at_a_time
from tidelog.storage.checkpoint import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    META_PROPERTIES_FILE,
    RECOVERY_POINT_CHECKPOINT,
    CleanShutdownFile,
    MetaProperties,
    OffsetCheckpoint,
)
from tidelog.storage.fs import FileSystem, ReadOnlyFileSystem
from tidelog.storage.log.view.directory_state import DirectoryCondition, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.recovery.recover_plan import PartitionPlan, RecoverOptions, plan_directory

CHECKPOINTS = {
    RECOVERY_POINT_CHECKPOINT: "recovery point",
    LOG_START_CHECKPOINT: "log start offset",
    HIGH_WATERMARK_CHECKPOINT: "high watermark",
    CLEANER_CHECKPOINT: "first dirty offset",
}

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPartition:
    """A partition's findings, and a sentence that describes a broker's actions on it at the next start."""

    partition: TopicPartition
    directory: Path
    findings: tuple[Finding, ...]
    log_start: int | None
    """None if the log cannot be opened. A finding gives the reason."""
    log_end: int | None
    outlook: str


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedDirectory:
    path: Path
    condition: str
    partitions: tuple[VerifiedPartition, ...]
    findings: tuple[Finding, ...]
    """The findings in the log directory's own files."""

    @property
    def all_findings(self) -> Iterator[Finding]:
        yield from self.findings
        for partition in self.partitions:
            yield from partition.findings

    @property
    def has_no_errors(self) -> bool:
        return all(finding.severity is Severity.NOTE for finding in self.all_findings)


def log_bytes(fs: FileSystem, path: Path) -> int:
    """Return the bytes of ``.log`` files that a verification reads: the total for a progress bar."""
    return sum(
        fs.stat(path / partition.directory_name / name).size
        for partition in live_partitions(fs, path)
        for name in fs.list_names(path / partition.directory_name)
        if name.endswith(".log")
    )


def verify_directory(
    fs: FileSystem,
    path: Path,
    *,
    only: Iterable[TopicPartition] | None = None,
    threads: int | None = None,
    advance: Callable[[int], None] = lambda _bytes: None,
) -> VerifiedDirectory:
    """Check a log directory. Raise DirectoryError if it cannot be listed. Every other error becomes a finding.

    ``advance`` receives the bytes read, one call at a time. ``threads`` defaults to the number of processors.
    """
    fs = ReadOnlyFileSystem(fs)
    state = read_directory_state(fs, path)
    wanted = None if only is None else frozenset(only)
    plan = plan_directory(fs, path, RecoverOptions(now_ms=SYSTEM_CLOCK.now_ms()), only=wanted)
    plans = {part.topic_partition: part for part in plan.partitions if part.name == part.topic_partition.directory_name}
    partitions = [part for part in live_partitions(fs, path) if wanted is None or part in wanted]
    threads = threads or usable_processors()
    ahead = len(partitions) < threads
    advance = one_at_a_time(advance)
    cleaned = _cleaned_partitions(fs, path)

    def check(partition: TopicPartition) -> VerifiedPartition:
        view = LogView(fs, path / partition.directory_name, directory_state=state)
        policy = plan.metadata.settings_of(partition.topic).get("cleanup.policy", "")
        known = KnownElsewhere(
            topic_id=plan.metadata.topic_ids.get(partition.topic),
            may_have_gaps=partition in cleaned or "compact" in policy or partition.topic in INTERNAL_TOPICS,
        )
        return _verify_partition(fs, view, partition, plans.get(partition), known, advance, ahead=ahead)

    verified = tuple(run_parallel(check, partitions, name="verify", threads=threads))
    by_partition = {part.partition: part for part in verified}
    return VerifiedDirectory(
        path=path,
        condition=state.condition.value,
        partitions=verified,
        findings=(*_newer_records(path, plan.metadata), *check_small_files(fs, path, by_partition))
        if wanted is None
        else (),
    )


def _newer_records(path: Path, metadata: TopicMetadata) -> Iterator[Finding]:
    for named in sorted(metadata.newer_records):
        message = f"records ({named}) are of a later release of Kafka and were ignored"
        yield Finding(path=path / METADATA_DIRECTORY, message=message, severity=Severity.NOTE)


def _cleaned_partitions(fs: FileSystem, path: Path) -> frozenset[TopicPartition]:
    """Return the partitions that the log cleaner has cleaned. An unreadable checkpoint becomes a finding elsewhere."""
    try:
        return frozenset(OffsetCheckpoint.read(fs, path / CLEANER_CHECKPOINT))
    except TidelogError:
        return frozenset()


def _verify_partition(
    fs: FileSystem,
    view: LogView,
    partition: TopicPartition,
    plan: PartitionPlan | None,
    known: KnownElsewhere,
    advance: Callable[[int], None],
    *,
    ahead: bool,
) -> VerifiedPartition:
    findings: list[Finding] = []
    log_start = log_end = None
    prospect = "cannot be opened"
    try:
        findings += check_partition(fs, view, known, advance, ahead=ahead)
        log_start, log_end = view.log_start, view.log_end
        prospect = outlook(plan, view) if plan is not None else prospect
    except TidelogError as error:
        findings.append(Finding.of(error, view.directory))
    return VerifiedPartition(
        partition=partition,
        directory=view.directory,
        findings=tuple(findings),
        log_start=log_start,
        log_end=log_end,
        outlook=prospect,
    )


def check_small_files(
    fs: FileSystem, path: Path, known: Mapping[TopicPartition, VerifiedPartition]
) -> Iterator[Finding]:
    """Check the log directory's own files. ``known`` holds all its partitions."""
    for name, meaning in CHECKPOINTS.items():
        yield from _check_checkpoint(fs, path / name, meaning, known)
    try:
        MetaProperties.read(fs, path / META_PROPERTIES_FILE)
    except TidelogError as error:
        yield Finding.of(error, path / META_PROPERTIES_FILE)
    marker = CleanShutdownFile(fs, path)
    if marker.exists() and marker.read() is None:
        message = "the broker epoch in it cannot be read; a broker takes it as unknown"
        yield Finding(path=marker.path, message=message, severity=Severity.WARNING)
    if fs.exists(path / BOOTSTRAP_CHECKPOINT):
        yield from check_batches_file(fs, path / BOOTSTRAP_CHECKPOINT)
    for name in sorted(fs.list_names(path)):
        if name.endswith(".tmp"):
            yield Finding(path=path / name, message="left over; a broker removes it", severity=Severity.NOTE)


def _check_checkpoint(
    fs: FileSystem, path: Path, meaning: str, known: Mapping[TopicPartition, VerifiedPartition]
) -> Iterator[Finding]:
    try:
        offsets = OffsetCheckpoint.read(fs, path)
    except TidelogError as error:
        yield Finding.of(error, path)
        return
    for partition, offset in offsets.items():
        log = known.get(partition)
        if log is None:
            message = f"{meaning} of {partition}, which is not in this directory"
            yield Finding(path=path, message=message, severity=Severity.WARNING, offset=offset)
        elif log.log_start is not None and log.log_end is not None:
            name = f"{meaning} of {partition}"
            yield from check_offset_in_log(offset, path, name, log_start=log.log_start, log_end=log.log_end)


def outlook(plan: PartitionPlan, view: LogView) -> str:
    """Return the sentence, such as ``recovers 3 segments from 1960 (unflushed)`` or ``loads it as it is``."""
    if view.condition is DirectoryCondition.HELD:
        return f"nothing: a running process holds the directory (pid {view.directory_state.holder})"
    deeds = []
    if plan.leftovers.removals:
        deeds.append(f"removes {_count(len(plan.leftovers.removals), 'leftover file')}")
    if plan.leftovers.renames:
        deeds.append(f"completes the swap of {_count(len(plan.leftovers.renames), 'file')}")
    if plan.splits:
        deeds.append(f"splits {_count(len(plan.splits), 'segment')} with offsets that no index can hold")
    if plan.recover:
        reasons = ", ".join(sorted({segment.reason.value for segment in plan.recover}))
        deeds.append(f"recovers {_count(len(plan.recover), 'segment')} from {plan.recover[0].base_offset} ({reasons})")
    tail = view.state.invalid_tail
    if tail is not None and view.condition is DirectoryCondition.UNCLEAN:
        deeds.append(
            f"truncates {tail.length:,} bytes at position {tail.position:,} of {tail.path.name} ({tail.reason})"
        )
        if tail.later_segments:
            deeds.append(f"deletes the {_count(tail.later_segments, 'segment')} after it")
    return "; ".join(deeds) or "loads it as it is"


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
