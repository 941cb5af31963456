"""``tidelog retention``: a table for each partition, with each segment's deletion time and reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from tidelog.cli.now_option import now_option
from tidelog.cli.options import output_options, selection, threads_option
from tidelog.cli.report import UNREADABLE, ExitCode, Report, Row, Table
from tidelog.cli.setting_options import config_file_option, key_values, properties
from tidelog.cli.targets import Target, each_target, select
from tidelog.cli.zookeeper_options import read_topic_settings, settings_from_zookeeper
from tidelog.inspect.record_rows import iso_time
from tidelog.inspect.retention import Cause, DeletionTrigger, PartitionRetention, survey_retention
from tidelog.inspect.retention.rows import SEGMENT_COLUMNS, segment_row
from tidelog.inspect.retention.sentences import goes_text, offsets_text, settings_text
from tidelog.storage.fs import BY_PATH
from tidelog.storage.manager.survey.setting_sources import SettingSources, read_setting_sources

RETENTION_KEYS = ("cleanup.policy", "retention.ms", "retention.bytes")
COLUMNS = ("base_offset", "last_offset", "bytes", "time", "time_from", "goes", "why")


@click.command()
@selection
@click.option(
    "--config",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="A setting (retention.ms, ...) of every shown topic, which overrides all others. Repeatable.",
)
@settings_from_zookeeper
@config_file_option
@now_option
@threads_option
@output_options
def retention(
    arguments: Sequence[str],
    topics: Sequence[str],
    settings: Sequence[str],
    zookeeper: str | None,
    zookeeper_config: Path | None,
    config_file: Path | None,
    now_ms: int,
    threads: int | None,
) -> Report:
    """Show when each segment will be deleted, by which rule, and why not yet.

    The output shows if the broker's next check deletes a segment, by log start, size or time. Otherwise it shows when
    the segment will be deleted: at a time if nothing is appended, after a number of further bytes, or never. A segment
    may stay because of a record with a future timestamp (shown with offset and distance), an earlier segment that
    stays, the high watermark, or cleanup.policy.

    A broker checks 30 seconds after its start, and then every 5 minutes (log.retention.check.interval.ms). For topics
    with compaction its log cleaner does the check, if log.cleaner.enable is on. Without a broker nothing is deleted.

    Settings come from the cluster metadata if a given directory has it, or with --zookeeper from there. Otherwise they
    are Kafka's defaults. Each is
    shown with its source. Use --config to try others: nothing is changed.

    Exit codes: 0 shown, 2 wrong usage, 3 a partition or directory cannot be read.

    \b
    Examples:
      tidelog retention /var/lib/kafka orders
      tidelog retention /var/lib/kafka --now 2030-01-01 --jsonl
      tidelog retention /var/lib/kafka orders-0 --config retention.ms=86400000
      tidelog retention '/mnt/disk*/kafka' --config-file server.properties --csv > plan.csv
    """
    exit_code = ExitCode()
    overrides = key_values("--config", settings)
    file = properties(config_file)
    SettingSources(file=file, overrides=overrides).of_topic("")  # wrong values end the run before anything is read
    targets = select(arguments, topics, exit_code)
    sources = read_setting_sources(
        BY_PATH,
        [target.path for target in targets],
        file=file,
        file_name="" if config_file is None else config_file.name,
        overrides=overrides,
        elsewhere=read_topic_settings(zookeeper, zookeeper_config, [target.path for target in targets]),
    )
    found = each_target(
        targets,
        lambda target: survey_retention(
            BY_PATH, target.path, sources[target.path], now_ms=now_ms, only=target.only, threads=threads
        ),
        exit_code,
    )
    if any(part.error is not None for _, parts in found for part in parts):
        exit_code.at_least(UNREADABLE)
    return Report(
        rows=[row for target, parts in found for part in parts for row in _rows(target, part)],
        tables=[_table(target, part, several=len(found) > 1) for target, parts in found for part in parts],
        notes=[*_notes(found, sources), f"As of {iso_time(now_ms)}. Nothing was changed."],
        exit_code=exit_code,
    )


def _rows(target: Target, part: PartitionRetention) -> Iterator[Row]:
    """Yield a row for each segment, and one with the error if the partition cannot be read."""
    config = part.settings.config
    head: dict[str, object] = {
        "directory": str(target.path),
        "topic": part.partition.topic,
        "partition": part.partition.partition,
    }
    tail: dict[str, object] = {
        "log_start": None if part.state is None else part.state.log_start_offset,
        "high_watermark": None if part.state is None else part.state.high_watermark,
        "log_end": None if part.state is None else part.log_end,
        "high_watermark_from": None if part.state is None else part.high_watermark_from.value,
        "cleanup_policy": sorted(config.cleanup_policy),
        "retention_ms": config.retention_ms,
        "retention_bytes": config.retention_bytes,
        "settings_from": {key: part.settings.origins[key] for key in RETENTION_KEYS},
        "error": None if part.error is None else str(part.error),
    }
    for outlook in part.outlooks:
        yield head | segment_row(part, outlook) | tail
    if part.error is not None:
        yield head | dict.fromkeys(SEGMENT_COLUMNS) | tail


def _table(target: Target, part: PartitionRetention, *, several: bool) -> Table:
    where = f"{target.path}: " if several else ""
    rows = [segment_row(part, outlook) | {"goes": goes_text(part, outlook)} for outlook in part.outlooks]
    title = f"{where}{part.partition.directory_name}: {settings_text(part)}\n{offsets_text(part)}"
    return Table(rows=rows, columns=COLUMNS, title=title, show={"time": iso_time})


def _notes(
    found: Sequence[tuple[Target, Sequence[PartitionRetention]]], sources: Mapping[Path, SettingSources]
) -> Iterator[str]:
    for target, parts in found:
        for part in parts:
            if part.error is not None:
                yield f"Error: {part.error}"
        outlooks = [outlook for part in parts for outlook in part.outlooks]
        going = [outlook for outlook in outlooks if outlook.trigger is DeletionTrigger.NEXT_CHECK]
        freed = sum(outlook.segment.size_bytes for outlook in going)
        total = sum(outlook.segment.size_bytes for outlook in outlooks)
        yield (
            f"{target.path}: the next check deletes {len(going):,} of {len(outlooks):,} segments, {freed:,} of"
            f" {total:,} bytes of records; a file is removed after file.delete.delay.ms."
        )
        future = sum(Cause.FUTURE_TIMESTAMP in outlook.causes for outlook in outlooks)
        if future:
            waiting = sum(Cause.WAITS in outlook.causes for outlook in outlooks)
            yield f"Segments kept by timestamps in the future: {future:,}. Waiting for one before them: {waiting:,}."
        yield _settings_note(sources[target.path])


def _settings_note(sources: SettingSources) -> str:
    if sources.metadata_from is None:
        return "There is no cluster metadata here: set the topics' settings with --config or --config-file."
    return f"Topic settings are those of the cluster metadata in {sources.metadata_from}."
