"""``tidelog records``: streams records, with at most one chunk of them in memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import click

from tidelog.api.log import Log
from tidelog.cli.options import output_options, reading_options, selection
from tidelog.cli.record_options import bound_options, shape_of, shape_options
from tidelog.cli.report import ExitCode, Report, Row, Table
from tidelog.cli.targets import Target, select
from tidelog.inspect.bounds import LATEST, Bound, BoundKind, ReadLimits, parse_bound, read_end, resolve_bound
from tidelog.inspect.record_rows import RowShape, iso_time, record_row
from tidelog.model import Isolation, TopicPartition
from tidelog.storage.fs import BY_PATH
from tidelog.storage.log.view.directory_state import DirectoryState, read_directory_state
from tidelog.storage.log.view.log_view import LogView, Until

WIDTHS = {"topic": 12, "partition": 9, "offset": 10, "timestamp": 24, "key": 16, "headers": 8}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Reading:
    """The request for every partition. ``notes`` fills while records are read."""

    start: Bound
    end: Bound
    limits: ReadLimits
    shape: RowShape
    follow: bool
    notes: list[str] = field(default_factory=list)


@click.command()
@selection
@bound_options
@reading_options
@click.option("--limit", type=click.IntRange(0), metavar="N", help="Stop after N records.")
@click.option("--follow", "-f", is_flag=True, help="Wait for more records at the end (one partition; Ctrl-C stops).")
@shape_options
@output_options
def records(
    arguments: Sequence[str],
    topics: Sequence[str],
    start: str,
    end: str,
    isolation: str,
    until: str | None,
    limit: int | None,
    follow: bool,
    key_format: str,
    value_format: str,
) -> Report:
    """Print the records of one partition.

    Several partitions are printed one after another. Records are printed as they are read. In JSON and CSV, a timestamp
    is in ms since 1970, and headers are a list in the record's order.

    Exit codes: 0 printed, 2 wrong usage, 3 a record or file cannot be read.

    \b
    Examples:
      tidelog records /var/lib/kafka orders-0
      tidelog records /var/lib/kafka orders-0 --start 2024-05-01T06:00 --end 2024-05-01T07:00 --jsonl
      tidelog records /var/lib/kafka orders-0 --start -10 --value-format json --jsonl | jq .value.price
      tidelog records /var/lib/kafka/payments-3 --isolation read_committed --limit 5
      tidelog records /var/lib/kafka orders-0 --follow --start latest
    """
    exit_code = ExitCode()
    reading = _Reading(
        start=parse_bound(start),
        end=parse_bound(end),
        limits=ReadLimits(isolation=Isolation(isolation), until=None if until is None else Until(until)),
        shape=shape_of(key_format, value_format),
        follow=follow,
    )
    targets = select(arguments, topics, exit_code)
    several = sum(len(target.partitions()) for target in targets) > 1
    if several and not topics and all(target.only is None for target in targets):
        raise click.UsageError("Name the partition to print: DIR TOPIC-PARTITION; or '*' for all of them.")
    if follow and several:
        raise click.UsageError("--follow takes one partition.")
    rows: Iterator[Row] = (row for target in targets for row in _target_rows(target, reading))
    rows = islice(rows, limit)
    names = ["topic", "partition"] * several + ["offset", "timestamp"]
    names += [name for name in ("key", "headers", "value") if name in reading.shape.columns]
    return Report(
        rows=rows,
        columns=reading.shape.columns,
        tables=[Table(rows=rows, columns=names, show={"timestamp": iso_time, "offset": str}, widths=WIDTHS)],
        notes=reading.notes,
        exit_code=exit_code,
        live=follow,
    )


def _target_rows(target: Target, reading: _Reading) -> Iterator[dict[str, Any]]:
    state = read_directory_state(BY_PATH, target.path)
    for partition in target.partitions():
        view = LogView(BY_PATH, target.path / partition.directory_name, directory_state=state)
        start, end = _range(view, reading)
        _note(reading, partition, view, state, end)
        log = Log(view)
        for record in log.records(start, end, reading.limits.isolation, reading.limits.until, reading.follow):
            yield record_row(partition, record, reading.shape)


def _range(view: LogView, reading: _Reading) -> tuple[int, int | None]:
    """Return the start and end offsets. The end is None for a read that waits for more records."""
    start = resolve_bound(view, reading.start, reading.limits)
    if reading.follow and reading.end == LATEST:
        return start, None
    if reading.follow and reading.end.kind is BoundKind.OFFSET and reading.end.number >= 0:
        return start, reading.end.number
    return start, resolve_bound(view, reading.end, reading.limits)


def _note(reading: _Reading, partition: TopicPartition, view: LogView, state: DirectoryState, end: int | None) -> None:
    asked = reading.start
    if asked.kind is BoundKind.OFFSET and 0 <= asked.number < view.log_start:
        reading.notes.append(f"{partition} begins at offset {view.log_start}; there is nothing before it.")
    limit = view.limit(reading.limits.isolation, reading.limits.until)
    if end is None or end >= limit:
        where = read_end(state, reading.limits.isolation, reading.limits.until)
        reading.notes.append(f"{partition} ends at offset {limit}. {where}.")
