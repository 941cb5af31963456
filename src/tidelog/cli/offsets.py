"""``tidelog offsets``: look-ups by time, or with ``--groups`` committed offsets and lag."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

import click

from tidelog.cli.options import output_options, reading_options, selection, threads_option
from tidelog.cli.progress import progress
from tidelog.cli.report import FINDINGS, UNREADABLE, ExitCode, Report, Row, Table
from tidelog.cli.targets import Target, each_target, name_matches, select
from tidelog.inspect.bounds import Bound, ReadLimits, parse_time, read_end
from tidelog.inspect.committed_offsets import CommittedOffset, GroupOffsets, read_committed_offsets
from tidelog.inspect.offsets import LogEnds, OffsetAtTime, log_ends, offsets_at_times
from tidelog.inspect.record_rows import iso_time
from tidelog.model import Isolation, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.storage.fs import BY_PATH
from tidelog.storage.log.view.directory_state import read_directory_state
from tidelog.storage.log.view.log_view import Until


@click.command()
@selection
@click.option(
    "--time",
    "times",
    multiple=True,
    default=("earliest", "latest"),
    show_default=True,
    metavar="TIME",
    help="earliest, latest, max-timestamp, earliest-local, latest-tiered, ms since 1970, or a date and time (UTC unless"
    " it says otherwise); or Kafka's numbers for these words, -1 to -5. Repeatable.",
)
@click.option("--groups", is_flag=True, help="Committed offsets of groups, and their lag, instead of times.")
@click.option("--group", "names", multiple=True, metavar="NAME", help="Like --groups, only for this group or pattern.")
@reading_options
@threads_option
@output_options
def offsets(
    arguments: Sequence[str],
    topics: Sequence[str],
    times: Sequence[str],
    groups: bool,
    names: Sequence[str],
    isolation: str,
    until: str | None,
    threads: int | None,
) -> Report:
    """Show offsets by time, and the committed offsets of groups.

    By time, the output is the offset of the first record at or after that time. It is empty if no record is that late.

    With --groups, the output is the newest commit of each group and partition in the __consumer_offsets of these
    directories. Commits in a transaction count once it was committed. The column lag counts offsets up to the log end,
    and stable_lag up to the last stable offset. Both need the partition's log, in the same directory or in another
    given one. Names select committed partitions.

    Exit codes: 0 shown, 1 a record of __consumer_offsets cannot be read, 2 wrong usage, 3 a partition or directory
    cannot be read.

    \b
    Examples:
      tidelog offsets /var/lib/kafka orders
      tidelog offsets /var/lib/kafka orders --time 2024-05-01T06:00 --time max-timestamp
      tidelog offsets '/mnt/disk*/kafka' --groups
      tidelog offsets /var/lib/kafka --group 'billing-*' --jsonl
    """
    limits = ReadLimits(isolation=Isolation(isolation), until=None if until is None else Until(until))
    asked = {parse_time(time): time for time in times}
    exit_code = ExitCode()
    if groups or names:
        # Names select committed partitions, whose logs may be elsewhere, so they need no match on disk.
        return _groups_report(arguments, topics, names, limits, threads, exit_code)
    targets = select(arguments, topics, exit_code)
    found = each_target(
        targets,
        lambda target: offsets_at_times(
            BY_PATH, target.path, list(asked), only=target.only, limits=limits, threads=threads
        ),
        exit_code,
    )
    rows = [_time_row(target, answer, asked) for target, answers in found for answer in answers]
    if any(row["error"] is not None for row in rows):
        exit_code.at_least(UNREADABLE)
    columns = ["directory"] * (len(found) > 1) + ["topic", "partition", "time", "offset", "timestamp"]
    columns += ["error"] * any(row["error"] is not None for row in rows)
    return Report(
        rows=rows,
        tables=[Table(rows=rows, columns=columns, show={"timestamp": iso_time})],
        notes=_ends((target for target, _ in found), limits),
        exit_code=exit_code,
    )


def _time_row(target: Target, answer: OffsetAtTime, asked: Mapping[Bound, str]) -> Row:
    return {
        "directory": str(target.path),
        "topic": answer.partition.topic,
        "partition": answer.partition.partition,
        "time": asked[answer.asked],
        "offset": answer.offset,
        "timestamp": answer.timestamp,
        "error": None if answer.error is None else str(answer.error),
    }


def _ends(targets: Iterable[Target], limits: ReadLimits) -> list[str]:
    states = (read_directory_state(BY_PATH, target.path) for target in targets)
    return [f"{read_end(state, limits.isolation, limits.until)}." for state in states]


def _groups_report(
    arguments: Sequence[str],
    topics: Sequence[str],
    names: Sequence[str],
    limits: ReadLimits,
    threads: int | None,
    exit_code: ExitCode,
) -> Report:
    paths, chosen = _paths_and_names(arguments)
    targets = [Target(path=target.path) for target in select(paths, (), exit_code)]
    wanted = [*chosen, *topics]
    total = sum(Target(path=target.path, only=_offsets_partitions(target)).log_bytes() for target in targets)
    with progress("Reading groups", total) as advance:
        found = each_target(
            targets,
            lambda target: read_committed_offsets(
                BY_PATH, target.path, until=limits.until, threads=threads, advance=advance
            ),
            exit_code,
            advance,
        )
    kept = [
        (target, [commit for commit in read.offsets if _is_wanted(commit, names, wanted)]) for target, read in found
    ]
    committed = {commit.partition for _, commits in kept for commit in commits}
    ends = {target.path: log_ends(BY_PATH, target.path, committed, threads=threads) for target in targets}
    rows = [_group_row(target, commit, ends) for target, commits in kept for commit in commits]
    for _, read in found:
        if read.errors:
            exit_code.at_least(UNREADABLE)
        if read.undecoded:
            exit_code.at_least(FINDINGS)
    columns = ["directory"] * (len(found) > 1) + ["group", "topic", "partition", "offset", "lag", "stable_lag"]
    columns += ["log_end", "commit_timestamp", "metadata"]
    return Report(
        rows=rows,
        tables=[Table(rows=rows, columns=columns, show={"commit_timestamp": iso_time})],
        notes=_group_notes(found, limits),
        exit_code=exit_code,
    )


def _paths_and_names(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """Split the arguments like ``targets`` does, but a name need not match anything on disk."""
    paths: list[str] = [arguments[0]]
    names: list[str] = []
    for argument in arguments[1:]:
        is_path = "/" in argument or Path(argument).is_dir()
        (paths if is_path else names).append(argument)
    return paths, names


def _offsets_partitions(target: Target) -> frozenset[TopicPartition]:
    return frozenset(part for part in target.partitions() if part.topic == GROUP_METADATA_TOPIC)


def _is_wanted(commit: CommittedOffset, groups: Sequence[str], partitions: Sequence[str]) -> bool:
    in_group = not groups or any(fnmatchcase(commit.group, name) for name in groups)
    return in_group and (not partitions or any(name_matches(name, commit.partition) for name in partitions))


def _group_row(target: Target, commit: CommittedOffset, ends: Mapping[Path, Mapping[TopicPartition, LogEnds]]) -> Row:
    everywhere = (ends[target.path], *ends.values())
    log = next((found[commit.partition] for found in everywhere if commit.partition in found), None)
    return {
        "directory": str(target.path),
        "group": commit.group,
        "topic": commit.partition.topic,
        "partition": commit.partition.partition,
        "offset": commit.offset,
        "lag": None if log is None else log.lag(commit.offset),
        "stable_lag": None if log is None else log.stable_lag(commit.offset),
        "log_start": None if log is None else log.log_start,
        "last_stable": None if log is None else log.last_stable,
        "log_end": None if log is None else log.log_end,
        "leader_epoch": commit.leader_epoch,
        "commit_timestamp": commit.commit_timestamp,
        "metadata": commit.metadata,
        "offsets_partition": commit.source.partition,
        "offsets_offset": commit.source_offset,
    }


def _group_notes(found: Sequence[tuple[Target, GroupOffsets]], limits: ReadLimits) -> Iterator[str]:
    for target, read in found:
        if not read.partitions:
            yield f"{target.path}: no partition of __consumer_offsets is here."
        if read.undecoded:
            yield f"{target.path}: {read.undecoded} records of __consumer_offsets could not be decoded."
        for error in read.errors:
            yield f"Error: {error}"
    yield from _ends((target for target, _ in found), ReadLimits(until=limits.until))
