"""``tidelog spark restore``: a row for each partition, planned or with ``--apply`` done."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import click

from tidelog.cli.report import UNREADABLE, ExitCode, Report, Table
from tidelog.cli.setting_options import topic_config_option, topic_settings
from tidelog.cli.spark.session import apply_option, run_in_session, session_options
from tidelog.cli.zookeeper_options import read_topic_settings, settings_from_zookeeper
from tidelog.storage.manager.metadata.topic_metadata import TopicMetadata

PLANNED = ("topic", "partition", "records", "firstOffset", "lastOffset", "dataBytes", "replacesEmpty")
DONE = ("topic", "partition", "records", "firstOffset", "logEndOffset", "segments", "logBytes")


@click.command()
@click.argument("source", metavar="TABLE")
@click.argument("directory", metavar="DIR")
@session_options
@click.option(
    "--format",
    "format_name",
    default="parquet",
    show_default=True,
    help="The format of the files under the path TABLE.",
)
@click.option("--catalog", "in_catalog", is_flag=True, help="TABLE is a name in the session's catalog, not a path.")
@apply_option
@settings_from_zookeeper
@topic_config_option
def restore(
    source: str,
    directory: str,
    topics: Sequence[str],
    master: str | None,
    conf: Sequence[str],
    format_name: str,
    in_catalog: bool,
    is_applied: bool,
    zookeeper: str | None,
    zookeeper_config: Path | None,
    settings: Sequence[str],
) -> Report:
    """Restore logs from a table's records: each record at its offset, with its timestamp and headers.

    The table has the columns topic, partition, offset, timestamp and value, and optionally key, headers and
    timestampType. Look at the plan first. With --apply, the job writes partitions that are missing or empty in the log
    directory, on which no broker may run. After a failure, each partition is either complete or unchanged. A partition
    that already has records has an error in its row. So has a partition whose rows cannot form a log, such as two rows
    with one offset. Gaps between offsets stay.

    Exit codes: 0 planned or restored, 2 wrong usage, 3 a partition cannot be restored, or the directory is held.

    \b
    Examples:
      tidelog spark restore s3a://backup/kafka /var/lib/kafka
      tidelog spark restore backup /var/lib/kafka --topic orders --apply
      tidelog spark restore lake.events /var/lib/kafka --catalog --apply --topic-config orders:compression.type=zstd
    """
    from tidelog.spark.jobs.restore import read_table
    from tidelog.spark.jobs.restore import restore as run

    elsewhere = read_topic_settings(zookeeper, zookeeper_config, [Path(directory)]) or TopicMetadata()
    given = topic_settings(settings)
    names = elsewhere.topic_settings.keys() | given.keys()
    rows = run_in_session(
        "restore",
        master,
        conf,
        lambda session, on_progress: run(
            session,
            session.table(source) if in_catalog else read_table(session, source, format_name),
            directory,
            topics=topics or None,
            settings={name: {**elsewhere.settings_of(name), **given.get(name, {})} for name in names},
            apply=is_applied,
            on_progress=on_progress,
        ),
    )
    exit_code = ExitCode()
    failed = any(row["error"] is not None for row in rows)
    if failed:
        exit_code.at_least(UNREADABLE)
    columns = [*(DONE if is_applied else PLANNED), *(["error"] * failed)]
    return Report(
        rows=rows,
        tables=[Table(rows=rows, columns=columns)],
        notes=[] if is_applied else ["Nothing was changed. Use --apply to do it."],
        exit_code=exit_code,
    )
