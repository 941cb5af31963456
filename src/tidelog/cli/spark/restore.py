"""``tidelog spark restore``: a row a partition, planned; with ``--apply`` what came of it."""

from __future__ import annotations

from collections.abc import Sequence

import click

from tidelog.cli.report import UNREADABLE, ExitCode, Report, Table
from tidelog.cli.setting_options import topic_config_option, topic_settings
from tidelog.cli.spark.running import apply_option, run_in_session, session_options

PLANNED = ("topic", "partition", "records", "firstOffset", "lastOffset", "dataBytes", "replacesEmpty")
DONE = ("topic", "partition", "records", "firstOffset", "logEndOffset", "segments", "logBytes")


@click.command()
@click.argument("source", metavar="TABLE")
@click.argument("directory", metavar="DIR")
@session_options
@click.option(
    "--format", "format_name", default="parquet", show_default=True, help="Of what lies under the path TABLE."
)
@click.option("--catalog", "in_catalog", is_flag=True, help="TABLE is a name in the session's catalog, not a path.")
@apply_option
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
    settings: Sequence[str],
) -> Report:
    """Make logs of a table's records, an export's say: each at its offset, with its time and headers.

    The table has the columns topic, partition, offset, timestamp, value, and may have key, headers, timestampType.
    First look at the plan; --apply writes the partitions that the log directory has not, or has empty, while no broker
    runs on it. Each is there whole or not at all, whatever happens. Rows that no log can be made of, such as two of one
    offset, and a partition that has records are told in its row. Gaps between offsets stay.

    Exit codes: 0 planned or restored, 2 wrong usage, 3 a partition cannot be restored, or the directory is held.

    \b
    Examples:
      tidelog spark restore s3a://backup/kafka /var/lib/kafka
      tidelog spark restore backup /var/lib/kafka --topic orders --apply
      tidelog spark restore lake.events /var/lib/kafka --catalog --apply --topic-config orders:compression.type=zstd
    """
    from tidelog.spark.jobs.restore import read_table
    from tidelog.spark.jobs.restore import restore as run

    rows = run_in_session(
        "restore",
        master,
        conf,
        lambda session, on_progress: run(
            session,
            session.table(source) if in_catalog else read_table(session, source, format_name),
            directory,
            topics=topics or None,
            settings=topic_settings(settings),
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
        notes=[] if is_applied else ["Nothing was changed. --apply carries it out."],
        exit_code=exit_code,
    )
