"""The ``verify`` check of whole log directories: partitions in parallel, then the checkpoints.

The outlook on a partition is a sentence about a broker's actions on it at the next start. It is made from the plan that
``recover`` applies and from the log end that a reader finds, so it names the bytes that would be truncated. The module
only reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidelog.inspect.verify.finding import Finding, Severity
from tidelog.inspect.verify.partition_check import KnownElsewhere, check_batches_file, check_partition
from tidelog.inspect.verify.state_check import check_offset_in_log
from tidelog.model import CancelledError, TidelogError, TopicPartition
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
from tidelog.storage.log.view.directory_state import DirectoryCondition, DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import live_partitions
from tidelog.storage.manager.metadata.cluster_metadata_log import METADATA_DIRECTORY
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata
from tidelog.storage.manager.recovery.recover_plan import PartitionPlan, RecoverOptions, RecoverPlan, plan_directory
from tidelog.storage.segment.file_names import DirectoryPurpose, PartitionDirectoryName

CHECKPOINTS = {
    RECOVERY_POINT_CHECKPOINT: "recovery point",
    LOG_START_CHECKPOINT: "log start offset",
    HIGH_WATERMARK_CHECKPOINT: "high watermark",
    CLEANER_CHECKPOINT: "first dirty offset",
}

BOOTSTRAP_CHECKPOINT = "bootstrap.checkpoint"
SETTLED = "loads it as it is"
"""The outlook on a log that a start does not change."""
_PASSING_OUTLOOKS = {
    DirectoryPurpose.DELETE: "deletes the directory",
    DirectoryPurpose.STRAY: "leaves the directory alone",
}
"""The outlooks on directories that are not loaded as logs."""


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
    """Check a log directory. Raise DirectoryError if it cannot be listed, and the CancelledError of ``advance``.

    Every other error becomes a finding. ``advance`` receives the bytes read, one call at a time. ``threads`` defaults
    to the number of processors.
    """
    fs = ReadOnlyFileSystem(fs)
    wanted = None if only is None else frozenset(only)
    partitions = [part for part in live_partitions(fs, path) if wanted is None or part in wanted]
    threads = threads or usable_processors()
    check = _DirectoryCheck.of(fs, path, wanted, one_at_a_time(advance), ahead=len(partitions) < threads)
    names = [part.directory_name for part in partitions]
    verified = tuple(run_parallel(check.verify, names, name="verify", threads=threads))
    by_partition = {part.partition: part for part in verified}
    return VerifiedDirectory(
        path=path,
        condition=check.state.condition.value,
        partitions=verified,
        findings=(*_newer_records(path, check.plan.metadata), *check_small_files(fs, path, by_partition))
        if wanted is None
        else (),
    )


def verify_log(
    fs: FileSystem, path: Path, name: str, advance: Callable[[int], None] = lambda _bytes: None
) -> VerifiedPartition:
    """Check the log in one directory of a log directory. The directory may be about to be added or removed.

    Raise DirectoryError if the name is not a partition's, and the CancelledError of ``advance``.
    """
    fs = ReadOnlyFileSystem(fs)
    wanted = frozenset({PartitionDirectoryName.parse(name).topic_partition})
    return _DirectoryCheck.of(fs, path, wanted, advance, ahead=True).verify(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class _DirectoryCheck:
    """The check of partitions of one log directory, with its small files as they were at the start."""

    fs: FileSystem
    path: Path
    state: DirectoryState
    plan: RecoverPlan
    plans: Mapping[str, PartitionPlan]
    """The plans by the names of directories."""
    cleaned: frozenset[TopicPartition]
    advance: Callable[[int], None]
    ahead: bool

    @classmethod
    def of(
        cls,
        fs: FileSystem,
        path: Path,
        wanted: frozenset[TopicPartition] | None,
        advance: Callable[[int], None],
        *,
        ahead: bool,
    ) -> Self:
        state = read_directory_state(fs, path)
        plan = plan_directory(fs, path, RecoverOptions(now_ms=SYSTEM_CLOCK.now_ms()), only=wanted)
        return cls(
            fs=fs,
            path=path,
            state=state,
            plan=plan,
            plans={part.name: part for part in plan.partitions},
            cleaned=_cleaned_partitions(fs, path),
            advance=advance,
            ahead=ahead,
        )

    def verify(self, name: str) -> VerifiedPartition:
        parsed = PartitionDirectoryName.parse(name)
        partition = parsed.topic_partition
        view = LogView(self.fs, self.path / name, directory_state=self.state)
        findings: list[Finding] = []
        log_start = log_end = None
        prospect = _PASSING_OUTLOOKS.get(parsed.purpose, "cannot be opened")
        try:
            known = self._known(partition)
            findings += check_partition(self.fs, view, known, self.advance, ahead=self.ahead)
            log_start, log_end = view.log_start, view.log_end
            plan = self.plans.get(name)
            prospect = outlook(plan, view) if plan is not None else prospect
        except CancelledError:
            raise
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

    def _known(self, partition: TopicPartition) -> KnownElsewhere:
        policy = self.plan.metadata.settings_of(partition.topic).get("cleanup.policy", "")
        may_have_gaps = partition in self.cleaned or "compact" in policy or partition.topic in INTERNAL_TOPICS
        return KnownElsewhere(topic_id=self.plan.metadata.topic_ids.get(partition.topic), may_have_gaps=may_have_gaps)


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
    return "; ".join(deeds) or SETTLED


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
