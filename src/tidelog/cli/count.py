"""``tidelog count``: a row for each partition, with its counts or its error, and a total."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tidelog.cli.options import output_options, selection, threads_option
from tidelog.cli.progress import progress
from tidelog.cli.report import UNREADABLE, ExitCode, Report, Row, Table
from tidelog.cli.targets import Target, each_target, select
from tidelog.inspect.bounds import read_end
from tidelog.inspect.count import PartitionCount, count_directory
from tidelog.storage.fs import BY_PATH
from tidelog.storage.log.view.directory_state import read_directory_state
from tidelog.storage.log.view.log_view import Until

COUNTED = (
    "records",
    "committed",
    "aborted",
    "held_back",
    "control",
    "tombstones",
    "records_above_hw",
    "offsets_above_hw",
    "batches",
    "bytes",
)
OFFSETS = ("log_start", "high_watermark", "last_stable", "log_end")


@click.command()
@selection
@click.option(
    "--headers-only",
    is_flag=True,
    help="Count by batch headers; decode only batches at the ends. Faster, without tombstones.",
)
@threads_option
@output_options
def count(arguments: Sequence[str], topics: Sequence[str], headers_only: bool, threads: int | None) -> Report:
    """Count records, batches and bytes exactly, committed and aborted apart.

    Offsets do not give the number of records: compaction and transactions leave gaps, and markers take offsets. The
    column records is committed + aborted + held_back, where held_back records are behind an open transaction. The
    column control counts markers, and tombstones are records with a null value. Everything is counted from the log
    start to the end of the valid batches.

    The columns records_above_hw and offsets_above_hw cover the range from the checkpointed high watermark to the log
    end. The first counts records. The second is the distance in offsets, with markers and gaps.

    Exit codes: 0 counted, 2 wrong usage, 3 a partition or directory cannot be read.

    \b
    Examples:
      tidelog count /var/lib/kafka
      tidelog count /var/lib/kafka orders 'payments-*' --json
      tidelog count '/mnt/disk*/kafka' --headers-only --csv > counts.csv
      tidelog count /var/lib/kafka/orders-0
    """
    exit_code = ExitCode()
    targets = select(arguments, topics, exit_code)
    with progress("Counting", sum(target.log_bytes() for target in targets)) as advance:
        found = each_target(
            targets,
            lambda target: count_directory(
                BY_PATH,
                target.path,
                only=target.only,
                headers_only=headers_only,
                threads=threads,
                advance=advance,
            ),
            exit_code,
            advance,
        )
    rows = [_row(target, counted) for target, counts in found for counted in counts]
    failed = any(row["error"] is not None for row in rows)
    if failed:
        exit_code.at_least(UNREADABLE)
    columns = ["directory"] * (len(found) > 1) + ["topic", "partition", *COUNTED, *OFFSETS] + ["error"] * failed
    return Report(
        rows=rows,
        tables=[Table(rows=rows, columns=columns, total=_total(rows))],
        notes=[f"{read_end(read_directory_state(BY_PATH, target.path), until=Until.LOG_END)}." for target, _ in found],
        exit_code=exit_code,
    )


def _row(target: Target, counted: PartitionCount) -> Row:
    head = {"directory": str(target.path), "topic": counted.partition.topic, "partition": counted.partition.partition}
    known = counted.error is None
    numbers = {name: getattr(counted, name) if known else None for name in (*COUNTED, *OFFSETS)}
    return head | numbers | {"error": None if counted.error is None else str(counted.error)}


def _total(rows: Sequence[Row]) -> Row | None:
    if len(rows) < 2:
        return None
    sums: dict[str, object] = {"topic": "total"}
    for name in COUNTED:
        values = [value for row in rows if isinstance(value := row[name], int)]
        if values:
            sums[name] = sum(values)
    return sums
