"""``tidelog transactions``: a row for each open transaction, with its producer, age and verdict."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from tidelog.cli.now_option import now_option
from tidelog.cli.options import output_options, selection, threads_option
from tidelog.cli.progress import progress
from tidelog.cli.report import FINDINGS, UNREADABLE, ExitCode, Report, Row, Table
from tidelog.cli.targets import Target, each_target, select_among
from tidelog.inspect.bounds import read_end
from tidelog.inspect.durations import duration_text, parse_duration
from tidelog.inspect.record_rows import iso_time
from tidelog.inspect.transaction_rows import FIELDS, JUDGED, endings, transaction_row
from tidelog.inspect.transaction_survey import Survey, survey_transactions
from tidelog.inspect.transactions import PartitionTransactions, open_transactions
from tidelog.storage.fs import BY_PATH
from tidelog.storage.log.view.directory_state import read_directory_state
from tidelog.storage.log.view.log_view import Until

SHOWN = (
    "topic",
    "partition",
    "producer_id",
    "producer_epoch",
    "start_offset",
    "start_timestamp",
    "age",
    "records",
    "held_back_records",
    "held_back_bytes",
    "transactional_id",
    "state",
    "verdict",
    "reason",
)


@click.command()
@selection
@click.option(
    "--hanging-after",
    default="15m",
    show_default=True,
    metavar="DURATION",
    help="The brokers' transaction.max.timeout.ms (in d, h, m, s or ms), for transactions without"
    " a coordinator's log here.",
)
@click.option("--hanging", "hanging_only", is_flag=True, help="Only transactions that hang, or may hang.")
@now_option
@threads_option
@output_options
def transactions(
    arguments: Sequence[str],
    topics: Sequence[str],
    hanging_after: str,
    hanging_only: bool,
    now_ms: int,
    threads: int | None,
) -> Report:
    """Show open transactions, the records behind them, and which of them hang.

    An open transaction hides everything after its first offset from read_committed consumers and from the cleaner. The
    columns held_back_* measure that range up to the log end. The columns coordinator_epoch and last_timestamp are those
    of kafka-transactions.sh. The age counts from the first record.

    The verdict is hanging if the coordinator has no transaction with this partition and will therefore never end it.
    The coordinator's log, __transaction_state, is searched in all given directories. The verdict is suspected if that
    log is not there and the transaction is silent for longer than any may last. It is overdue if its coordinator will
    abort it once that runs, and otherwise open. The notes say how to end a hanging transaction.

    Exit codes: 0 none hangs, 1 some hang or are suspected to, 2 wrong usage, 3 a partition or directory cannot be read.

    \b
    Examples:
      tidelog transactions /var/lib/kafka
      tidelog transactions /mnt/disk1/kafka /mnt/disk2/kafka 'payments-*' --hanging --jsonl
      tidelog transactions /var/lib/kafka/orders-0 --hanging-after 1h
    """
    hanging_after_ms = parse_duration(hanging_after)
    exit_code = ExitCode()
    targets, directories = select_among(arguments, topics, exit_code)
    with progress("Looking for transactions", None) as advance:
        found = each_target(
            targets,
            lambda target: open_transactions(BY_PATH, target.path, only=target.only, threads=threads, advance=advance),
            exit_code,
            advance,
        )
    partitions = [part for _, parts in found for part in parts]
    survey = survey_transactions(
        BY_PATH,
        directories,
        (transaction for part in partitions for transaction in part.open),
        now_ms=now_ms,
        hanging_after_ms=hanging_after_ms,
        threads=threads,
    )
    if any(judged.judgement.verdict.hangs for judged in survey.transactions):
        exit_code.at_least(FINDINGS)
    if any(part.error is not None for part in partitions) or any(log.errors for log in survey.coordinators):
        exit_code.at_least(UNREADABLE)
    shown = [judged for judged in survey.transactions if judged.judgement.verdict.hangs or not hanging_only]
    rows: list[Row] = [transaction_row(judged, now_ms) for judged in shown]
    rows += [_error_row(part) for part in partitions if part.error is not None]
    return Report(
        rows=rows,
        columns=["directory", "topic", "partition", *FIELDS, *JUDGED],
        tables=[_table(rows, several=len(found) > 1)],
        notes=_notes([target for target, _ in found], partitions, survey),
        exit_code=exit_code,
    )


def _error_row(part: PartitionTransactions) -> Row:
    head = {"directory": str(part.directory.parent), "topic": part.partition.topic}
    nothing = dict.fromkeys((*FIELDS, *JUDGED))
    return {**head, "partition": part.partition.partition, **nothing, "error": str(part.error)}


def _table(rows: Sequence[Row], *, several: bool) -> Table:
    columns = ["directory"] * several + [*SHOWN] + ["error"] * any(row["error"] is not None for row in rows)
    return Table(
        rows=[{**row, "age": row["age_ms"]} for row in rows],
        columns=columns,
        show={"age": duration_text, "start_timestamp": iso_time, "producer_id": str},
    )


def _notes(targets: Sequence[Target], partitions: Sequence[PartitionTransactions], survey: Survey) -> Iterator[str]:
    hanging = [judged.transaction for judged in survey.transactions if judged.judgement.verdict.hangs]
    yield (
        f"Open transactions in {len(partitions):,} partitions: {len(survey.transactions):,};"
        f" hanging or suspected to: {len(hanging):,}."
    )
    for transaction in hanging:
        yield from endings(transaction)
    for log in survey.coordinators:
        if log.undecoded:
            yield f"{log.undecoded:,} records of __transaction_state could not be decoded."
        for error in log.errors:
            yield f"Error: {error}"
    for target in targets:
        yield f"{read_end(read_directory_state(BY_PATH, target.path), until=Until.LOG_END)}."
