"""``tidelog mirror``: plans a copy of a cluster's topics in a log directory, and with ``--apply`` makes it."""

from __future__ import annotations

import queue
import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Final

import click

from tidelog.cli.byte_size import BYTE_SIZE
from tidelog.cli.mirror_bar import mirror_bar
from tidelog.cli.options import chosen_format, output_options
from tidelog.cli.report import FINDINGS, INTERRUPTED, ExitCode, Report, Row, Table
from tidelog.mirroring.blocking import plan_mirror, run_mirror
from tidelog.mirroring.planning.options import MirrorOptions, source_settings
from tidelog.mirroring.planning.plan import DELETED, UNREADABLE, MirrorPlan, PlannedPartition
from tidelog.mirroring.run.progress import CopiedPartition, MirrorProgress, MirrorResult
from tidelog.mirroring.source.source_topics import COORDINATOR_TOPICS
from tidelog.mirroring.target.target_settings import DEFAULT_NODE_ID
from tidelog.storage.checkpoint import uuid_to_text

PLAN_COLUMNS = ("topic", "state", "partitions", "source_bytes", "missing_records", "missing_bytes", "errors")
_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
DONE_COLUMNS = ("name", "log_start", "log_end", "source_end", "copied_records", "copied_bytes", "removed_records")


@click.command()
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False, path_type=Path))
@click.option("--from", "servers", required=True, metavar="HOST:PORT[,...]", help="Brokers of the source cluster.")
@click.option(
    "--command-config",
    "properties",
    metavar="FILE",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A client's properties file for the source: security.protocol, sasl.jaas.config and others.",
)
@click.option(
    "--topics",
    "-t",
    "topics",
    metavar="REGEX",
    default=".*",
    show_default=True,
    help="The topics to copy: a regular expression for complete names.",
)
@click.option(
    "--groups/--no-groups",
    default=True,
    show_default=True,
    help="Copy the committed offsets of groups and the state of transactions, too.",
)
@click.option("--follow", "-f", is_flag=True, help="Go on until Ctrl-C or SIGTERM.")
@click.option(
    "--deleted",
    type=click.Choice(["keep", "delete"]),
    default="keep",
    show_default=True,
    help="What happens to the copy of a topic that the source has deleted.",
)
@click.option("--max-rate", type=BYTE_SIZE, metavar="SIZE", help="The most bytes a second, such as 50MB.")
@click.option(
    "--min-free",
    type=BYTE_SIZE,
    metavar="SIZE",
    default="1GiB",
    show_default=True,
    help="The space that stays free on the disk; the run ends before.",
)
@click.option(
    "--accept-data-loss", is_flag=True, help="Follow a source that has less data than the copy, and truncate the copy."
)
@click.option("--accept-other-cluster", is_flag=True, help="Go on with a source of another cluster id.")
@click.option(
    "--node-id",
    type=click.IntRange(0),
    metavar="N",
    default=DEFAULT_NODE_ID,
    show_default=True,
    help="The id of the broker that will serve a new copy.",
)
@click.option(
    "--release-version",
    "-r",
    "release",
    metavar="VERSION",
    help="An older release that must open a new copy, such as 4.0.",
)
@click.option("--apply", "is_applied", is_flag=True, help="Apply the plan. Without this option, nothing is written.")
@output_options
def mirror(
    directory: Path,
    servers: str,
    properties: Path | None,
    topics: str,
    groups: bool,
    follow: bool,
    deleted: str,
    max_rate: int | None,
    min_free: int,
    accept_data_loss: bool,
    accept_other_cluster: bool,
    node_id: int,
    release: str | None,
    is_applied: bool,
) -> Report:
    """Copy topics of a Kafka cluster into a log directory, byte for byte and offset for offset.

    The source is any cluster of Kafka 3 or 4. The mirror reads like a consumer, so it needs READ and DESCRIBE only.
    The copy has the source's topic ids, batches, leader epochs and settings, and by default its committed offsets and
    transactions. Every tidelog command and Spark read it, also while the mirror runs. Once it has ended, `tidelog
    serve` and Kafka start on it.

    Look at the plan first. With --apply, the topics are copied up to their ends at this moment, and with --follow until
    you stop it. Run the command again to go on: the copy resumes at its ends, also after a kill or on a disk that was
    full. With --jsonl, --apply prints a JSON object for each event, twice a second the progress, and at the end each
    partition.

    A source that has lost data does not empty the copy: that needs --accept-data-loss.

    Exit codes: 0 planned, complete, or stopped while following, 1 some partitions are not complete, 2 wrong usage, 3
    the source or the directory cannot be used, or the disk is full, 130 interrupted. A pattern that matches no topic
    ends with 1, too.

    \b
    Examples:
      tidelog mirror --from kafka-1:9092 copy
      tidelog mirror --from kafka-1:9092,kafka-2:9092 --topics 'orders|payments.*' copy --apply
      tidelog mirror --from kafka-1:9093 --command-config client.properties --max-rate 50MB copy --follow --apply
    """
    options = MirrorOptions(
        directory=directory.absolute(),
        source=source_settings(servers, properties),
        topics=topics,
        with_coordinators=groups,
        follows=follow,
        deletes_old=deleted == "delete",
        max_rate=max_rate,
        min_free=min_free,
        accepts_loss=accept_data_loss,
        accepts_cluster=accept_other_cluster,
        node_id=node_id,
        release=release,
    )
    if not is_applied:
        return _plan_report(options, plan_mirror(options))
    if chosen_format() == "jsonl":
        exit_code = ExitCode()
        return Report(rows=_live_rows(options, exit_code), live=True, exit_code=exit_code)
    return _done_report(options)


# --- the plan ---


def _plan_report(options: MirrorOptions, plan: MirrorPlan) -> Report:
    rows = [_plan_row(one) for one in plan.partitions]
    table = Table(rows=list(_topic_rows(plan.partitions)), columns=PLAN_COLUMNS)
    notes = list(_plan_notes(plan))
    return Report(
        rows=rows, tables=[table], notes=notes if _has_topics(plan.partitions) else [_no_topic(options), *notes]
    )


def _has_topics(partitions: Sequence[PlannedPartition | CopiedPartition]) -> bool:
    return any(one.partition.topic not in COORDINATOR_TOPICS for one in partitions)


def _no_topic(options: MirrorOptions) -> str:
    return f"No topic of the source that this client may describe matches --topics {options.topics!r}."


def _plan_row(one: PlannedPartition) -> Row:
    return {
        "name": str(one.partition),
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "topic_id": None if one.topic_id is None else uuid_to_text(one.topic_id),
        "state": one.state,
        "leader": one.leader,
        "source_start": one.source_start,
        "source_end": one.source_end,
        "source_bytes": one.source_bytes,
        "copy_end": one.copy_end,
        "missing_records": one.missing_records,
        "missing_bytes": one.missing_bytes,
        "error": one.error,
    }


def _topic_rows(partitions: Sequence[PlannedPartition]) -> Iterator[Row]:
    """Yield a row for each topic."""
    topics: dict[tuple[str, str], list[PlannedPartition]] = {}
    for one in partitions:
        topics.setdefault((one.partition.topic, one.state), []).append(one)
    for (topic, state), found in topics.items():
        yield {
            "topic": topic,
            "state": state,
            "partitions": len(found),
            "source_bytes": _sum(one.source_bytes for one in found),
            "missing_records": _sum(one.missing_records for one in found),
            "missing_bytes": _sum(one.missing_bytes for one in found),
            "errors": ", ".join(f"{one.partition}: {one.error}" for one in found if one.error) or None,
        }


def _sum(numbers: Iterator[int | None]) -> int | None:
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _plan_notes(plan: MirrorPlan) -> Iterator[str]:
    yield f"Source: cluster {plan.source_cluster_id}. {'New copy' if plan.is_new else 'Copy'}: {plan.directory}."
    missing = plan.missing_bytes
    needed = "of unknown size" if missing is None else f"about {missing:,} bytes"
    yield f"To copy: {needed}; {plan.free_bytes:,} bytes of the disk are free."
    if missing is not None and missing > plan.free_bytes:
        yield "Warning: the disk has less space than the copy needs."
    states = {one.state for one in plan.partitions}
    if UNREADABLE in states:
        yield "Topics that this client may not read are left out."
    if DELETED in states:
        yield "Topics that the source has deleted stay in the copy, unless --deleted delete is given."
    for part, reason in plan.denials.items():
        yield f"The {part} cannot be read: {reason}."
    if plan.holder is not None:
        yield f"Process {plan.holder} uses the copy: nothing can be applied while it runs."
    else:
        yield "Nothing was written. Use --apply to copy."


# --- the run ---


def _done_report(options: MirrorOptions) -> Report:
    stop = threading.Event()
    exit_code = ExitCode()
    with _stopped_by_signals(stop), mirror_bar("Mirroring") as (show, say):
        result = run_mirror(options, on_progress=show, on_event=say, stop=stop)
    _judge(options, result, exit_code, was_stopped=stop.is_set())
    rows = [_done_row(one) for one in result.partitions]
    failed = any(one.error for one in result.partitions)
    table = Table(rows=rows, columns=[*DONE_COLUMNS, *(["error"] * failed)])
    return Report(rows=rows, tables=[table], notes=list(_done_notes(options, result)), exit_code=exit_code)


def _judge(options: MirrorOptions, result: MirrorResult, exit_code: ExitCode, *, was_stopped: bool) -> None:
    is_whole = result.is_complete and _has_topics(result.partitions)
    if any(one.error for one in result.partitions) or (not options.follows and not is_whole):
        exit_code.at_least(FINDINGS)
    if was_stopped and not options.follows:
        exit_code.at_least(INTERRUPTED)


def _done_row(one: CopiedPartition) -> Row:
    return {
        "name": str(one.partition),
        "topic": one.partition.topic,
        "partition": one.partition.partition,
        "log_start": one.log_start,
        "log_end": one.log_end,
        "source_end": one.source_end,
        "copied_records": one.copied_records,
        "copied_bytes": one.copied_bytes,
        "removed_records": one.removed_records,
        "is_complete": one.is_complete,
        "error": one.error,
    }


def _done_notes(options: MirrorOptions, result: MirrorResult) -> Iterator[str]:
    if not _has_topics(result.partitions):
        yield _no_topic(options)
    seconds, complete = result.elapsed_ms / 1000, sum(one.is_complete for one in result.partitions)
    yield (
        f"{result.copied_bytes:,} bytes copied in {seconds:,.1f} s; {complete:,}"
        f" of {len(result.partitions):,} partitions are complete. The copy: {options.directory}."
    )
    yield from result.notes


def _live_rows(options: MirrorOptions, exit_code: ExitCode) -> Iterator[Row]:
    """Run in a background thread, and yield rows as they come."""
    rows: queue.SimpleQueue[Row | MirrorResult | BaseException] = queue.SimpleQueue()
    stop = threading.Event()

    def work() -> None:
        try:
            rows.put(
                run_mirror(
                    options,
                    on_progress=lambda now: rows.put(_progress_row(now)),
                    on_event=lambda event: rows.put({"kind": "event", "text": event}),
                    stop=stop,
                )
            )
        except BaseException as error:
            rows.put(error)

    thread = threading.Thread(target=work, name="mirror")
    with _stopped_by_signals(stop):
        thread.start()
        while not isinstance(found := rows.get(), MirrorResult | BaseException):
            yield found
        thread.join()
    if isinstance(found, BaseException):
        raise found
    _judge(options, found, exit_code, was_stopped=stop.is_set())
    yield from ({"kind": "partition", **_done_row(one)} for one in found.partitions)
    notes = found.notes if _has_topics(found.partitions) else [_no_topic(options), *found.notes]
    yield from ({"kind": "note", "text": note} for note in notes)


@contextmanager
def _stopped_by_signals(stop: threading.Event) -> Iterator[None]:
    """Set ``stop`` at Ctrl-C or SIGTERM, if this is the main thread. A second one ends the process like a kill."""

    def on_signal(_number: int, _frame: object) -> None:
        stop.set()
        for one in _SIGNALS:
            signal.signal(one, signal.SIG_DFL)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {one: signal.signal(one, on_signal) for one in _SIGNALS}
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def _progress_row(now: MirrorProgress) -> Row:
    return {"kind": "progress", **asdict(now)}
