"""The reports of ``tidelog snapshot``: a row for each partition, a table of the topics, and one of the transactions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from tidelog.cli.report import ExitCode, Report, Row, Table
from tidelog.inspect.committed_offsets import read_committed_offsets
from tidelog.inspect.record_rows import iso_time
from tidelog.model import TopicPartition
from tidelog.storage.fs import FileSystem
from tidelog.storage.manager.snapshot.open_transactions import OpenTransactionPolicy, SettledTransaction, TransactionEnd
from tidelog.storage.manager.snapshot.partition_end import EndedBy
from tidelog.storage.manager.snapshot.partition_finish import SnapshotPartition
from tidelog.storage.manager.snapshot.snapshot import DirectorySnapshot, SnapshotResult
from tidelog.storage.manager.snapshot.snapshot_plan import DirectoryOutlook, PartitionOutlook, SnapshotPlan

_SUMS = ("partitions", "truncated_partitions", "offsets_left_out", "linked_bytes", "copied_bytes", "open_transactions")
_END_COLUMNS = ("name", "log_start", "log_end", "source_log_end", "ended_by", "first_left_out")
_TRANSACTION_COLUMNS = (
    "name",
    "transactional_id",
    "producer_id",
    "producer_epoch",
    "first_offset",
    "end",
)
_SHOWN = 20
"""The most partitions or commits that a table for people lists."""


def plan_report(plan: SnapshotPlan, exit_code: ExitCode, *, is_refused: bool) -> Report:
    """Return the plan's report. ``is_refused`` says that it should have been applied, but has errors."""
    rows = [_plan_row(directory, outlook) for directory in plan.directories for outlook in directory.partitions]
    return Report(
        rows=rows,
        tables=_tables(rows, several=len(plan.directories) > 1),
        notes=list(_plan_notes(plan, rows, is_refused=is_refused)),
        exit_code=exit_code,
    )


def done_report(fs: FileSystem, result: SnapshotResult, exit_code: ExitCode) -> Report:
    """Return the report of finished snapshots, whose committed offsets are compared with their logs."""
    rows = [_done_row(directory, one) for directory in result.directories for one in directory.partitions]
    return Report(
        rows=rows,
        tables=_tables(rows, several=len(result.directories) > 1),
        notes=[*_done_notes(result), *_commits_above(fs, result)],
        exit_code=exit_code,
    )


def _plan_row(directory: DirectoryOutlook, outlook: PartitionOutlook) -> Row:
    parts = outlook.parts
    end = None if parts is None else parts.end
    return {
        **_name_fields(directory, outlook.partition),
        "log_start": None if parts is None else parts.log_start,
        "log_end": None if end is None else end.offset,
        "source_log_end": None if end is None else end.log_end,
        "ended_by": None if end is None else end.by.value,
        "first_left_out": None if end is None else end.first_left_out_ms,
        "linked_segments": 0 if parts is None else sum(part.is_linked for part in parts.parts),
        "copied_segments": 0 if parts is None else sum(not part.is_linked for part in parts.parts),
        "linked_bytes": 0 if parts is None else parts.linked_bytes,
        "copied_bytes": 0 if parts is None else parts.copied_bytes,
        "transactions": _transactions(outlook.transactions),
        "compacted_past_end": outlook.compacted_past_end,
        "error": None if outlook.error is None else str(outlook.error),
    }


def _done_row(directory: DirectorySnapshot, done: SnapshotPartition) -> Row:
    end = done.copy.parts.end
    return {
        **_name_fields(directory, done.partition),
        "log_start": done.log_start,
        "log_end": done.log_end,
        "source_log_end": end.log_end,
        "ended_by": end.by.value,
        "first_left_out": end.first_left_out_ms,
        "linked_segments": done.copy.linked,
        "copied_segments": done.copy.copied,
        "linked_bytes": done.copy.linked_bytes,
        "copied_bytes": done.copy.copied_bytes,
        "transactions": _transactions(done.transactions),
        "error": None,
    }


def _name_fields(directory: DirectoryOutlook | DirectorySnapshot, partition: TopicPartition) -> dict[str, object]:
    return {
        "directory": str(directory.paths.source),
        "destination": str(directory.paths.target),
        "name": partition.directory_name,
        "topic": partition.topic,
        "partition": partition.partition,
    }


def _transactions(found: Iterable[SettledTransaction]) -> list[dict[str, object]]:
    return [
        {
            "transactional_id": one.transactional_id,
            "producer_id": one.producer_id,
            "producer_epoch": one.producer_epoch,
            "first_offset": one.first_offset,
            "end": one.end.value,
        }
        for one in found
    ]


def _tables(rows: Sequence[Row], *, several: bool) -> list[Table]:
    where = ["directory"] * several
    topics = _topic_rows(rows)
    total = {"topic": "total"} | {name: sum(int(str(row[name])) for row in topics) for name in _SUMS}
    ended = [row for row in rows if row["ended_by"] != EndedBy.LOG_END][:_SHOWN]
    transactions = [{"directory": row["directory"], "name": row["name"], **one} for row in rows for one in _listed(row)]
    return [
        Table(rows=topics, columns=["topic", *_SUMS], total=total if len(topics) > 1 else None),
        Table(
            rows=ended,
            columns=[*where, *_END_COLUMNS],
            title="Partitions that end before their log",
            show={"first_left_out": iso_time},
        ),
        Table(
            rows=transactions[:_SHOWN],
            columns=[*where, *_TRANSACTION_COLUMNS],
            title="Transactions that are open at that time",
        ),
    ]


def _listed(row: Row) -> list[dict[str, object]]:
    found = row["transactions"]
    return found if isinstance(found, list) else []


def _topic_rows(rows: Sequence[Row]) -> list[Row]:
    sums: dict[object, Counter[str]] = {}
    for row in rows:
        found = sums.setdefault(row["topic"], Counter(dict.fromkeys(_SUMS, 0)))
        end, source_end = row["log_end"], row["source_log_end"]
        left_out = source_end - end if isinstance(end, int) and isinstance(source_end, int) else 0
        found["partitions"] += 1
        found["truncated_partitions"] += row["ended_by"] not in (None, EndedBy.LOG_END)
        found["offsets_left_out"] += max(0, left_out)
        found["open_transactions"] += len(_listed(row))
        for name in ("linked_bytes", "copied_bytes"):
            found[name] += int(str(row[name]))
    return [{"topic": topic, **found} for topic, found in sums.items()]


def _plan_notes(plan: SnapshotPlan, rows: Sequence[Row], *, is_refused: bool) -> Iterator[str]:
    for directory in plan.directories:
        linked, copied = directory.linked_bytes, directory.copied_bytes
        yield (
            f"{directory.paths.source} ({directory.state.condition}) to {directory.paths.target}:"
            f" {linked:,} bytes are linked, {copied:,} bytes are copied."
        )
        if not directory.same_disk:
            yield f"{directory.paths.target} is on another disk, so that every file is copied."
        if directory.state.holder is not None:
            yield f"Process {directory.state.holder} holds the directory. It may write until the snapshot is taken."
        if directory.leftover is not None:
            yield f"{directory.leftover} is left over from a snapshot that ended early. --apply removes it first."
        if directory.left_out:
            yield f"Left out, because they are no live partitions: {_some(directory.left_out)}."
        yield from (f"Warning: {warning}." for warning in directory.state.warnings)
    yield from _transaction_notes(rows, plan.options.policy)
    yield from _end_notes(plan)
    for error in plan.errors:
        yield f"Error: {error}"
    if is_refused:
        yield "Nothing was written, because a partition cannot be read."


def _end_notes(plan: SnapshotPlan) -> Iterator[str]:
    unknown = plan.unknown_partitions
    if unknown:
        yield f"Warning: the file of offsets names partitions that are not here: {_some(map(str, unknown))}."
    compacted = [one.name for one in plan.partitions if one.compacted_past_end]
    if compacted:
        yield (
            "Warning: the cleaner has compacted records of before that time with later ones. Keys that were written"
            f" again later are missing: {_some(compacted)}."
        )
    ends = [(one.name, one.parts.end) for one in plan.partitions if one.parts is not None]
    outside = [f"{name} ({end.wanted} becomes {end.offset})" for name, end in ends if end.wanted is not None]
    if outside:
        yield f"Warning: offsets outside of the log: {_some(outside)}."
    gone = [name for name, end in ends if end.offset == end.log_start > 0 and end.by is not EndedBy.LOG_END]
    if gone:
        yield f"Warning: empty, because the records of before that time are deleted already: {_some(gone)}."


def _done_notes(result: SnapshotResult) -> Iterator[str]:
    for directory in result.directories:
        linked, copied = directory.linked_bytes, directory.copied_bytes
        yield (
            f"{directory.paths.target}: {len(directory.partitions):,} partitions, {linked:,} bytes linked,"
            f" {copied:,} bytes copied."
        )
    rows = [_done_row(directory, one) for directory in result.directories for one in directory.partitions]
    yield from _transaction_notes(rows, result.plan.options.policy)
    yield from _end_notes(result.plan)


def _transaction_notes(rows: Sequence[Row], policy: OpenTransactionPolicy) -> Iterator[str]:
    found = [one for row in rows for one in _listed(row)]
    if not found:
        return
    if policy is OpenTransactionPolicy.KEEP:
        yield f"{len(found):,} open transactions are kept open."
        return
    committed = sum(one["end"] == TransactionEnd.COMMITTED for one in found)
    yield (
        f"{len(found):,} open transactions: {len(found) - committed:,} are aborted, and {committed:,} are committed,"
        " because their coordinator had decided that."
    )


def _commits_above(fs: FileSystem, result: SnapshotResult) -> Iterator[str]:
    """Yield a note about committed offsets above the end of their partition's log."""
    ends = {one.partition: one.log_end for directory in result.directories for one in directory.partitions}
    above = []
    for directory in result.directories:
        found = read_committed_offsets(fs, directory.paths.target)
        yield from (f"Error: {error}" for error in found.errors)
        above += [
            f"{one.group} at {one.offset} of {one.partition}, which ends at {ends[one.partition]}"
            for one in found.offsets
            if one.offset > ends.get(one.partition, one.offset)
        ]
    if above:
        yield f"Warning: {len(above):,} committed offsets are above the end of their partition: {_some(above)}."


def _some(names: Iterable[str]) -> str:
    listed = list(names)
    more = f" and {len(listed) - _SHOWN:,} more" if len(listed) > _SHOWN else ""
    return ", ".join(listed[:_SHOWN]) + more
