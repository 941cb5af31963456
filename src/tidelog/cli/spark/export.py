"""``tidelog spark export``: a row for each written topic."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from tidelog.cli.report import Report, Table
from tidelog.cli.setting_options import key_values
from tidelog.cli.spark.session import job_options, run_job

F = TypeVar("F", bound=Callable[..., Any])

ENCODINGS = ("binary", "string", "json", "avro", "confluent-avro")
"""The values of ``Encoding``. A test checks that both lists agree."""
SUMMED = ("partitions", "records", "undecodableKeys", "undecodableValues")


def _decoding_options(command: F) -> F:
    for side in ("value", "key"):
        command = click.option(
            f"--{side}-schema", metavar="TEXT|@FILE", help="Spark's DDL for json, an Avro schema for avro."
        )(command)
        command = click.option(
            f"--{side}",
            f"{side}_encoding",
            type=click.Choice(ENCODINGS),
            default="binary",
            show_default=True,
            help=f"The encoding of {side}s.",
        )(command)
    return command


@click.command()
@job_options
@click.option("--output", metavar="PATH", help="The path to write to; or use --table.")
@click.option("--table", metavar="NAME", help="A table of the session's catalog, for example of Iceberg or Delta.")
@click.option(
    "--format", "format_name", default="parquet", show_default=True, help="Any format that the session can write."
)
@click.option(
    "--mode",
    type=click.Choice(["errorifexists", "append", "overwrite"]),
    default="errorifexists",
    show_default=True,
    help="The action if the output exists.",
)
@click.option("--option", "read", multiple=True, metavar="KEY=VALUE", help="An option of the source. Repeatable.")
@click.option(
    "--write-option", "write", multiple=True, metavar="KEY=VALUE", help="An option of the writer. Repeatable."
)
@_decoding_options
@click.option(
    "--keep-undecodable",
    is_flag=True,
    help="Keep undecodable data as null, with its bytes in keyRaw or valueRaw.  [default: an error]",
)
def export(
    directories: Sequence[str],
    topics: Sequence[str],
    master: str | None,
    conf: Sequence[str],
    output: str | None,
    table: str | None,
    format_name: str,
    mode: str,
    read: Sequence[str],
    write: Sequence[str],
    key_encoding: str,
    key_schema: str | None,
    value_encoding: str,
    value_schema: str | None,
    keep_undecodable: bool,
) -> Report:
    """Write the records of many directories as Parquet, or another format, with Spark.

    The output is one table, partitioned by topic and by date (UTC, of the record's timestamp). Keys and values stay
    bytes unless they are decoded, and from bytes tidelog spark restore can make logs. The options of format("tidelog")
    are available as --option: startingOffsets, endingTimestamp, kafka.isolation.level, onCorrupt and so on. Avro needs
    Spark's package of that name in the session (--conf spark.jars.packages=…).

    Exit codes: 0 written, 2 wrong usage, 3 a partition or directory cannot be read, or a record cannot be decoded.

    \b
    Examples:
      tidelog spark export /mnt/disk1/kafka /mnt/disk2/kafka --output s3a://backup/kafka
      tidelog spark export '/mnt/disk*/kafka' -t orders --output orders --value json --value-schema @orders.ddl
      tidelog spark export /var/lib/kafka --table lake.events --format iceberg --option endingTimestamp=1700000000000
    """
    from tidelog.spark.jobs.decoding import Decoding, Encoding
    from tidelog.spark.jobs.export import ExportOptions
    from tidelog.spark.jobs.export import export as run

    options = ExportOptions(
        path=output,
        table=table,
        format=format_name,
        mode=mode,
        read=key_values("--option", read),
        write=key_values("--write-option", write),
        key=Decoding(encoding=Encoding(key_encoding), schema=_text(key_schema)),
        value=Decoding(encoding=Encoding(value_encoding), schema=_text(value_schema)),
        keeps_undecodable=keep_undecodable,
    )
    rows = run_job(
        "export",
        directories,
        master,
        conf,
        lambda session, paths, on_progress: run(
            session, paths, options, topics=topics or None, on_progress=on_progress
        ),
    )
    sums = {name: sum(row[name] for row in rows) for name in SUMMED}
    total = {"topic": "total"} | sums if len(rows) > 1 else None
    return Report(rows=rows, tables=[Table(rows=rows, columns=["topic", *SUMMED], total=total)])


def _text(given: str | None) -> str | None:
    """Return the text, or a file's content for ``@FILE``. Raise UsageError if the file cannot be read."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text()
    except (OSError, ValueError) as error:
        raise click.UsageError(f"{given[1:]} cannot be read: {error}") from None
