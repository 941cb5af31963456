"""``tidelog count``: a row for each partition, with its counts or its error, and a total."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from tidelog.cli.options import output_options, selection, threads_option
from tidelog.cli.progress import progress
from tidelog.cli.replicas import TargetReplicas
from tidelog.cli.report import UNREADABLE, ExitCode, Report, Row, Table
from tidelog.cli.targets import Target, each_target, select
from tidelog.inspect.bounds import read_end
from tidelog.inspect.count import PartitionCount, count_directory
from tidelog.model import TopicPartition
from tidelog.storage.fs import BY_PATH, path_of
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
@click.option(
    "--replicas",
    "all_replicas",
    is_flag=True,
    help="Count every replica if directories of several brokers are given, and compare the counts with the leader's.",
)
@threads_option
@output_options
def count(
    arguments: Sequence[str], topics: Sequence[str], headers_only: bool, all_replicas: bool, threads: int | None
) -> Report:
    """Count records, batches and bytes exactly, committed and aborted apart.

    Offsets do not give the number of records: compaction and transactions leave gaps, and markers take offsets. The
    column records is committed + aborted + held_back, where held_back records are behind an open transaction. The
    column control counts markers, and tombstones are records with a null value. Everything is counted from the log
    start to the end of the valid batches.

    The columns records_above_hw and offsets_above_hw cover the range from the checkpointed high watermark to the log
    end. The first counts records. The second is the distance in offsets, with markers and gaps.

    A partition in the directories of several brokers of one cluster is counted once, from the leader's replica by the
    newest cluster metadata among them. With --replicas each replica has a row, and the total leaves out the others. The
    column lag is the distance to the leader's log end. To compare the records themselves, use compare.

    Exit codes: 0 counted, 2 wrong usage, 3 a partition or directory cannot be read.

    \b
    Examples:
      tidelog count /var/lib/kafka
      tidelog count /var/lib/kafka orders 'payments-*' --json
      tidelog count '/mnt/disk*/kafka' --headers-only --csv > counts.csv
      tidelog count /var/lib/kafka/orders-0
    """
    exit_code = ExitCode()
    given = select(arguments, topics, exit_code)
    replicas = TargetReplicas.of(given)
    targets = given if all_replicas else replicas.once(given)
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
    rows = [_row(target, counted, replicas) for target, counts in found for counted in counts]
    failed = any(row["error"] is not None for row in rows)
    if failed:
        exit_code.at_least(UNREADABLE)
    compares = all_replicas and bool(replicas.chosen)
    if compares:
        rows = _with_lags(rows, replicas)
    columns = ["directory"] * (len(found) > 1) + ["topic", "partition"] + ["role", "lag"] * compares
    columns += [*COUNTED, *OFFSETS] + ["error"] * failed
    once = [row for row in rows if replicas.is_chosen(*_place(row))]
    ends = [f"{read_end(read_directory_state(BY_PATH, target.path), until=Until.LOG_END)}." for target, _ in found]
    return Report(
        rows=rows,
        tables=[Table(rows=rows, columns=columns, total=_total(once))],
        notes=[*ends, *(_comparison(rows, replicas) if compares else replicas.notes("counted"))],
        exit_code=exit_code,
    )


def _row(target: Target, counted: PartitionCount, replicas: TargetReplicas) -> Row:
    head = {"directory": str(target.path), "topic": counted.partition.topic, "partition": counted.partition.partition}
    known = counted.error is None
    numbers = {name: getattr(counted, name) if known else None for name in (*COUNTED, *OFFSETS)}
    role = replicas.role_of(target.path, counted.partition)
    about = {"role": None if role is None else role.value, "lag": None}
    return head | numbers | {"error": None if counted.error is None else str(counted.error)} | about


def _place(row: Row) -> tuple[Path, TopicPartition]:
    return path_of(str(row["directory"])), TopicPartition(str(row["topic"]), int(str(row["partition"])))


def _leaders_row(row: Row, rows: Mapping[tuple[Path, TopicPartition], Row], replicas: TargetReplicas) -> Row | None:
    """Return the row of the chosen replica of the same partition."""
    path, partition = _place(row)
    chosen = replicas.chosen_path(path, partition)
    return None if chosen is None else rows.get((chosen, partition))


def _with_lags(rows: Sequence[Row], replicas: TargetReplicas) -> list[Row]:
    by_place = {_place(row): row for row in rows}
    found: list[Row] = []
    for row in rows:
        leaders = _leaders_row(row, by_place, replicas)
        ends = (None if leaders is None else leaders["log_end"], row["log_end"])
        lag = ends[0] - ends[1] if isinstance(ends[0], int) and isinstance(ends[1], int) else None
        found.append({**row, "lag": lag})
    return found


def _comparison(rows: Sequence[Row], replicas: TargetReplicas) -> Iterator[str]:
    """Yield a sentence for each replica whose number of records differs from the leader's."""
    by_place = {_place(row): row for row in rows}
    equal = 0
    for row in rows:
        leaders = _leaders_row(row, by_place, replicas)
        if leaders is None or leaders is row or row["records"] is None or leaders["records"] is None:
            continue
        if row["records"] == leaders["records"]:
            equal += 1
            continue
        path, partition = _place(row)
        counts = f"{row['records']:,} records in {path}, and {leaders['records']:,} in {leaders['directory']}"
        yield f"{partition} has {counts}."
    yield f"{equal:,} other replicas have as many records as the replica that the total counts."


def _total(rows: Sequence[Row]) -> Row | None:
    if len(rows) < 2:
        return None
    sums: dict[str, object] = {"topic": "total"}
    for name in COUNTED:
        values = [value for row in rows if isinstance(value := row[name], int)]
        if values:
            sums[name] = sum(values)
    return sums
