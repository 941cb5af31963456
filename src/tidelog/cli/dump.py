"""``tidelog dump``: any file as JSON objects, or as the text of ``kafka-dump-log`` with its switches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import click

from tidelog.cli.options import chosen_format, expand, output_options
from tidelog.cli.report import FINDINGS, UNREADABLE, ExitCode, Report, Row
from tidelog.inspect.dump import (
    JsonOptions,
    KafkaFormatOptions,
    PayloadDecoder,
    ToolRelease,
    ValueClass,
    dump_json,
    dump_kafka_format,
)
from tidelog.inspect.printable import escaped
from tidelog.storage.fs import BY_PATH

_DECODERS = {
    PayloadDecoder.OFFSETS: "Read records as those of __consumer_offsets.",
    PayloadDecoder.TRANSACTION_LOG: "Read records as those of __transaction_state.",
    PayloadDecoder.CLUSTER_METADATA: "Read records as those of __cluster_metadata.",
    PayloadDecoder.REMOTE_LOG_METADATA: "Read records as those of __remote_log_metadata.",
    PayloadDecoder.SHARE_GROUP_STATE: "Read records as those of __share_group_state.",
}
_KAFKA_ONLY = {
    "deep_iteration": "show records, not only batches.",
    "print_data_log": "show records with their keys and values.",
    "index_sanity_check": "check each index by itself, and print no entries.",
    "verify_index_only": "compare indexes with the log, and print no entries.",
    "skip_record_metadata": "show only keys and values, without offsets.",
}
_KAFKA_VALUES = ("kafka_release", "max_message_size", "key_decoder_class", "value_decoder_class")


def _switches(command: Any) -> Any:
    for decoder, text in reversed(_DECODERS.items()):
        command = click.option(f"--{decoder}", "decoder", flag_value=decoder.value, default=None, help=text)(command)
    for name, text in reversed(_KAFKA_ONLY.items()):
        command = click.option(f"--{name.replace('_', '-')}", is_flag=True, help=f"Kafka format: {text}")(command)
    return command


@click.command()
@click.argument("paths", nargs=-1, metavar="FILE...")
@click.option("--files", metavar="FILE,...", help="More files, separated by commas, as in kafka-dump-log.")
@click.option("--kafka-format", is_flag=True, help="Print what kafka-dump-log prints, byte for byte.")
@click.option("--batches", is_flag=True, help="JSON: print one object per batch instead of one per record.")
@click.option("--max-bytes", type=click.IntRange(1), metavar="N", help="Read at most N bytes of each log file.")
@_switches
@click.option(
    "--kafka-release",
    type=click.Choice([release.value for release in ToolRelease]),
    help=f"Kafka format: print like the tool of this release. [default: {KafkaFormatOptions().release}]",
)
@click.option(
    "--max-message-size",
    type=click.IntRange(1),
    metavar="N",
    help="Kafka format: the maximum size of a batch in bytes.",
)
@click.option(
    "--key-decoder-class",
    is_flag=False,
    flag_value="string",
    metavar="[NAME]",
    help="Kafka format: the decoder of keys: string, integer, long, or the name of Kafka's class.",
)
@click.option(
    "--value-decoder-class",
    is_flag=False,
    flag_value="string",
    metavar="[NAME]",
    help="Kafka format: the same for values.",
)
@output_options
def dump(
    paths: Sequence[str],
    files: str | None,
    kafka_format: bool,
    batches: bool,
    decoder: str | None,
    max_bytes: int | None,
    **switches: Any,
) -> Report:
    """Print the contents of log, index, snapshot and checkpoint files.

    By default, print one JSON object a line. File kinds are .log, .index, .timeindex, .txnindex, .snapshot,
    .checkpoint, the checkpoints, meta.properties, partition.metadata and the clean-shutdown marker. A name may also end
    in .deleted, .cleaned or .swap. Records of Kafka's internal topics are decoded, by the name of their directory or by
    a switch. A record of an unknown version is printed raw.

    Passwords in broker settings and the keys of SCRAM users are hidden.

    With --kafka-format, print the text of kafka-dump-log, which takes the same switches and hides nothing. Errors in a
    file go to stderr.

    Exit codes: 0 dumped, 1 a file has an error, 2 wrong usage, 3 a file is missing.

    \b
    Examples:
      tidelog dump /var/lib/kafka/replication-offset-checkpoint
      tidelog dump --kafka-format --print-data-log /var/lib/kafka/orders-0/00000000000000000000.log
      tidelog dump --kafka-format --offsets-decoder --files a.log,b.log
      tidelog dump /var/lib/kafka/orders-0/*.log | jq .value
      tidelog dump --batches '/var/lib/kafka/orders-*/*.log' --csv > batches.csv
    """
    exit_code = ExitCode()
    wanted = _existing(expand([*paths, *(files or "").split(",")] if files else paths), exit_code)
    chosen = None if decoder is None else PayloadDecoder(decoder)
    given = [name for name, value in switches.items() if value]
    if kafka_format:
        if chosen_format() or batches:
            other = f"--{chosen_format() or 'batches'}"
            raise click.UsageError(f"--kafka-format and {other} exclude each other.")
        return _kafka_report(wanted, _kafka_options(chosen, max_bytes, switches), exit_code)
    if given:
        raise click.UsageError(f"--{given[0].replace('_', '-')} needs --kafka-format.")
    options = JsonOptions(batches=batches, decoder=chosen, max_bytes=max_bytes)
    if chosen_format() == "csv":
        rows: Iterable[Row] = _same_columns(wanted, options)
    else:
        rows = dump_json(wanted, options)
    return Report(rows=_watched(rows, exit_code), exit_code=exit_code, jsonl_by_default=True)


def _existing(paths: Sequence[Path], exit_code: ExitCode) -> list[Path]:
    """Return the existing paths. Raise UsageError for no path or a directory.

    Missing paths are reported first, because a long dump would bury the error.
    """
    if not paths:
        raise click.UsageError("Missing argument 'FILE...'.")
    there = []
    for path in paths:
        if not BY_PATH.exists(path):
            click.echo(f"Error: no such file: {escaped(str(path))}", err=True)
            exit_code.at_least(UNREADABLE)
            continue
        if BY_PATH.stat(path).is_dir:
            raise click.UsageError(f"'{path}' is a directory: give files, for example '{path}/*.log'.")
        there.append(path)
    return there


def _kafka_options(
    decoder: PayloadDecoder | None, max_bytes: int | None, switches: dict[str, Any]
) -> KafkaFormatOptions:
    named = {name: switches[name] for name in _KAFKA_ONLY}
    if switches["max_message_size"] is not None:
        named["max_message_size"] = switches["max_message_size"]
    if switches["kafka_release"] is not None:
        named["release"] = ToolRelease(switches["kafka_release"])
    if max_bytes is not None:
        named["max_bytes"] = max_bytes
    for side in ("key", "value"):
        name = switches[f"{side}_decoder_class"]
        named[f"{side}_class"] = None if name is None else ValueClass.parse(name)
    return KafkaFormatOptions(decoder=decoder or PayloadDecoder.PLAIN, **named)


def _kafka_report(paths: Sequence[Path], options: KafkaFormatOptions, exit_code: ExitCode) -> Report:
    def complain(line: str) -> None:
        exit_code.at_least(FINDINGS)
        click.echo(escaped(line), err=True)

    return Report(text=dump_kafka_format(paths, options, complain=complain), exit_code=exit_code)


def _watched(rows: Iterable[Row], exit_code: ExitCode) -> Iterator[Row]:
    for row in rows:
        if row["type"] == "error" or row.get("is_valid") is False:
            exit_code.at_least(FINDINGS)
        yield row


def _same_columns(paths: Sequence[Path], options: JsonOptions) -> Iterator[Row]:
    """Yield rows that all have every column, because CSV has one header line. This reads all files twice."""
    columns = dict.fromkeys(name for row in dump_json(paths, options) for name in row)
    for row in dump_json(paths, options):
        yield {name: row.get(name) for name in columns}
