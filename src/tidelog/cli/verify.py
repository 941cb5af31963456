"""``tidelog verify``: findings, and for each partition an outlook on a broker's next start."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import click

from tidelog.cli.options import output_options, selection, threads_option
from tidelog.cli.progress import progress
from tidelog.cli.replicas import TargetReplicas
from tidelog.cli.report import FINDINGS, ExitCode, Report, Row, Table
from tidelog.cli.targets import Target, each_target, select
from tidelog.inspect.verify import Finding, verify_directory
from tidelog.inspect.verify.directory_check import SETTLED, VerifiedDirectory, VerifiedPartition
from tidelog.storage.fs import BY_PATH

FINDING_COLUMNS = (
    "severity",
    "file",
    "position",
    "offset",
    "message",
    "next_good_position",
    "next_good_offset",
)


@click.command()
@selection
@threads_option
@output_options
def verify(arguments: Sequence[str], topics: Sequence[str], threads: int | None) -> Report:
    """Check every file against the log, and predict a broker's next start.

    Every header, CRC and record is read. Indexes, snapshots, leader epochs and checkpoints are compared with the logs.
    A finding names the file, the byte position, the offset and, after damage, the next good batch. Severities: error
    (the file contradicts itself or the log), warning (unusual, but Kafka accepts it), note (expected after a crash).

    Each replica is checked alone. With the directories of several brokers of one cluster, a row has the replica's role
    by the newest cluster metadata among them. To compare replicas with each other, use compare.

    JSON and CSV have two kinds of rows: "finding", and an "outlook" for each partition. An outlook's message says how a
    broker would treat the partition at its next start.

    Exit codes: 0 nothing but notes, 1 errors or warnings, 2 wrong usage, 3 a directory cannot be read.

    \b
    Examples:
      tidelog verify /var/lib/kafka
      tidelog verify '/mnt/disk*/kafka' orders --jsonl | jq 'select(.severity == "error")'
      tidelog verify /var/lib/kafka/orders-0
    """
    exit_code = ExitCode()
    targets = select(arguments, topics, exit_code)
    with progress("Verifying", sum(target.log_bytes() for target in targets)) as advance:
        found = each_target(
            targets,
            lambda target: verify_directory(BY_PATH, target.path, only=target.only, threads=threads, advance=advance),
            exit_code,
            advance,
        )
    if not all(directory.has_no_errors for _, directory in found):
        exit_code.at_least(FINDINGS)
    replicas = TargetReplicas.of(targets)
    rows = [row for target, directory in found for row in _rows(target, directory, replicas)]
    findings = [row for row in rows if row["kind"] == "finding"]
    outlooks = [row for row in rows if row["kind"] == "outlook" and row["message"] != SETTLED]
    where = ["directory"] * (len(found) > 1)
    columns = ["topic", "partition", "log_start", "log_end", "message"]
    roles = ["role"] * bool(replicas.chosen)
    return Report(
        rows=rows,
        tables=[
            Table(rows=findings, columns=[*roles, *FINDING_COLUMNS], title="Findings"),
            Table(rows=outlooks, columns=where + roles + columns, title="At its next start a broker"),
        ],
        notes=[*(note for _, directory in found for note in _notes(directory)), *_advice(replicas)],
        exit_code=exit_code,
    )


def _advice(replicas: TargetReplicas) -> Iterator[str]:
    if replicas.chosen:
        yield (
            f"{len(replicas.chosen):,} partitions lie in the directories of several brokers. tidelog compare tells"
            " whether these replicas are equal."
        )


def _rows(target: Target, directory: VerifiedDirectory, replicas: TargetReplicas) -> Iterator[Row]:
    for finding in directory.findings:
        yield _finding_row(target, None, finding) | {"role": None}
    for part in directory.partitions:
        role = replicas.role_of(target.path, part.partition)
        about = {"role": None if role is None else role.value}
        for finding in part.findings:
            yield _finding_row(target, part, finding) | about
        yield _row(target, part, kind="outlook", file=str(part.directory), message=part.outlook) | about


def _finding_row(target: Target, part: VerifiedPartition | None, finding: Finding) -> dict[str, object]:
    return _row(
        target,
        part,
        kind="finding",
        severity=finding.severity.value,
        file=str(finding.path),
        position=finding.position,
        offset=finding.offset,
        message=finding.message,
        next_good_position=finding.next_good_position,
        next_good_offset=finding.next_good_offset,
    )


def _row(target: Target, part: VerifiedPartition | None, *, kind: str, **cells: object) -> dict[str, object]:
    return {
        "kind": kind,
        "directory": str(target.path),
        "topic": None if part is None else part.partition.topic,
        "partition": None if part is None else part.partition.partition,
        **dict.fromkeys(FINDING_COLUMNS),
        "log_start": None if part is None else part.log_start,
        "log_end": None if part is None else part.log_end,
        **cells,
    }


def _notes(directory: VerifiedDirectory) -> Iterator[str]:
    counts = Counter(finding.severity.value for finding in directory.all_findings)
    found = ", ".join(f"{count:,} {name}{'s' * (count != 1)}" for name, count in sorted(counts.items()))
    settled = sum(part.outlook == SETTLED for part in directory.partitions)
    yield (
        f"{directory.path} ({directory.condition}): {len(directory.partitions):,} partitions checked,"
        f" {found or 'nothing found'}; a broker loads {settled:,} of them as they are."
    )
