"""``tidelog export``: writes records to files, and replaces existing files only with ``--force``."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

from tidelog.cli.options import output_options, reading_options, selection, threads_option
from tidelog.cli.progress import progress
from tidelog.cli.record_options import bound_options, shape_of, shape_options
from tidelog.cli.report import FINDINGS, UNREADABLE, ExitCode, Report, Row, Table
from tidelog.cli.targets import Target, select
from tidelog.inspect.bounds import ReadLimits, parse_bound, read_end
from tidelog.inspect.export import ExportedPartition, ExportOptions, export_partitions
from tidelog.inspect.export_files import ExportFormat
from tidelog.model import Isolation
from tidelog.model.internal_topics import TOPICS_WITHOUT_USER_RECORDS
from tidelog.storage.fs import BY_PATH
from tidelog.storage.log.view.directory_state import read_directory_state
from tidelog.storage.log.view.log_view import Until
from tidelog.storage.log.view.row_stream import CorruptPolicy

COLUMNS = ("topic", "partition", "records", "first_offset", "last_offset", "file", "file_bytes")


@click.command()
@selection
@click.option(
    "--output",
    "-o",
    required=True,
    type=click.Path(path_type=Path),
    help="A file, whose suffix gives the format, or a directory for one file per partition.",
)
@click.option("--format", "form", type=click.Choice([form.value for form in ExportFormat]), help="The files' format.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@bound_options
@reading_options
@click.option(
    "--on-corrupt",
    type=click.Choice(["fail", "skip"]),
    default="fail",
    show_default=True,
    help="At a damaged batch: write no file, or continue after it and report the skipped bytes.",
)
@shape_options
@threads_option
@output_options
def export(
    arguments: Sequence[str],
    topics: Sequence[str],
    output: Path,
    form: str | None,
    force: bool,
    start: str,
    end: str,
    isolation: str,
    until: str | None,
    on_corrupt: str,
    key_format: str,
    value_format: str,
    threads: int | None,
) -> Report:
    """Write records as JSON lines, CSV, Arrow or Parquet.

    Columns: topic, partition, offset, timestamp, timestamp_type, key, value, headers. Arrow and Parquet keep keys and
    values as bytes. JSON lines and CSV follow --key-format and --value-format. Kafka's internal topics are left out
    unless they are named. A file appears under its name when it is complete. The command prints one row for each
    partition.

    Exit codes: 0 written, 1 damaged batches were left out, 2 wrong usage, 3 something cannot be read or written.

    \b
    Examples:
      tidelog export '/mnt/disk*/kafka' --output backup/ --format parquet
      tidelog export /var/lib/kafka orders --output orders.parquet
      tidelog export /var/lib/kafka orders-0 --start 2024-05-01 --end 2024-05-02 --output day.jsonl
      tidelog export /var/lib/kafka payments -o payments.csv --isolation read_committed --value-format text
    """
    one_file, chosen = _kind(output, form)
    exit_code = ExitCode()
    targets = [_without_internal(target) for target in select(arguments, topics, exit_code)]
    limits = ReadLimits(isolation=Isolation(isolation), until=None if until is None else Until(until))
    options = ExportOptions(
        output=output,
        format=chosen,
        one_file=one_file,
        replace_files=force,
        start=parse_bound(start),
        end=parse_bound(end),
        limits=limits,
        shape=shape_of(key_format, value_format),
        on_corrupt=CorruptPolicy(on_corrupt),
        threads=threads,
    )
    cancelled = threading.Event()
    with progress("Exporting", sum(target.log_bytes() for target in targets)) as advance:
        sources = [(target.path, target.partitions()) for target in targets]
        exported = export_partitions(BY_PATH, sources, options, advance=advance, cancelled=cancelled)
    rows = [_row(result) for result in exported]
    exit_code.at_least(FINDINGS * any(result.skipped_bytes for result in exported))
    exit_code.at_least(UNREADABLE * any(result.error is not None for result in exported))
    extra = [name for name in ("skipped_bytes", "error") if any(row[name] for row in rows)]
    total = {"topic": "total", "records": sum(result.records for result in exported)}
    return Report(
        rows=rows,
        tables=[Table(rows=rows, columns=[*COLUMNS, *extra], total=total if len(rows) > 1 else None)],
        notes=_notes(targets, limits),
        exit_code=exit_code,
    )


def _kind(output: Path, form: str | None) -> tuple[bool, ExportFormat]:
    """Return True if everything goes into one file, and the format."""
    suffix = output.suffix.removeprefix(".").lower()
    named = suffix in {member.value for member in ExportFormat} and not output.is_dir()
    if named and form not in (None, suffix):
        raise click.UsageError(f"--format {form} contradicts the file's suffix .{suffix}.")
    if not named and form is None:
        raise click.UsageError("--format is needed if --output is a directory.")
    return named, ExportFormat(suffix if named else form or "")


def _without_internal(target: Target) -> Target:
    if target.only is not None:
        return target
    wanted = frozenset(part for part in target.partitions() if part.topic not in TOPICS_WITHOUT_USER_RECORDS)
    return Target(path=target.path, only=wanted)


def _row(result: ExportedPartition) -> Row:
    return {
        "directory": str(result.directory.parent),
        "topic": result.partition.topic,
        "partition": result.partition.partition,
        "start": result.start,
        "end": result.end,
        "records": result.records,
        "first_offset": result.first_offset,
        "last_offset": result.last_offset,
        "file": str(result.file),
        "file_bytes": result.file_bytes,
        "skipped_ranges": result.skipped_ranges,
        "skipped_bytes": result.skipped_bytes,
        "error": None if result.error is None else str(result.error),
    }


def _notes(targets: Sequence[Target], limits: ReadLimits) -> Iterator[str]:
    for target in targets:
        state = read_directory_state(BY_PATH, target.path)
        yield f"{read_end(state, limits.isolation, limits.until)}."
