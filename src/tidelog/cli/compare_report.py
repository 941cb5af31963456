"""The tables and notes of ``tidelog compare``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tidelog.cli.report import Row, Table
from tidelog.inspect.compare import ComparedPartition, Difference, DifferenceKind
from tidelog.inspect.compare.comparison_rows import (
    difference_fields,
    epoch_starts,
    readable_replicas,
    replica_names,
    replica_rows,
)

_COLUMNS = (
    "topic",
    "partition",
    "node_id",
    "role",
    "state",
    "log_start",
    "high_watermark",
    "log_end",
    "lag",
    "leader_epoch",
    "truncated_to",
    "truncated_records",
)
_MOST_TABLES = 10
"""The differences, and the partitions with different epochs, that are shown to people."""


def tables_of(compared: Sequence[ComparedPartition]) -> list[Table]:
    rows = [row for one in compared for row in replica_rows(one)]
    nodes = Counter((row["topic"], row["partition"], row["node_id"]) for row in rows)
    by_directory = any(row["node_id"] is None for row in rows) or any(count > 1 for count in nodes.values())
    columns = [*_COLUMNS, *(["directory"] if by_directory else [])]
    problems = [
        {"topic": one.partition.topic, "partition": one.partition.partition, "problem": problem}
        for one in compared
        for problem in one.problems
    ]
    return [
        Table(rows=rows, columns=columns, title="Replicas"),
        *list(_epoch_tables(compared))[:_MOST_TABLES],
        *list(_difference_tables(compared))[:_MOST_TABLES],
        Table(rows=problems, title="Problems"),
    ]


def _epoch_tables(compared: Sequence[ComparedPartition]) -> Iterator[Table]:
    """Yield the leader epochs side by side where replicas have different ones."""
    for one in compared:
        readable = readable_replicas(one)
        if len({replica.epochs for replica in readable}) < 2:
            continue
        titles = [replica_names(one)[id(replica)] for replica in readable]
        rows: list[Row] = [
            {"epoch": epoch, **dict(zip(titles, starts, strict=True))} for epoch, starts in epoch_starts(one)
        ]
        yield Table(rows=rows, title=f"{one.partition}: start offsets of the leader epochs")


def _difference_tables(compared: Sequence[ComparedPartition]) -> Iterator[Table]:
    for one in compared:
        names = replica_names(one)
        for other in one.replicas:
            if other.difference is None or other.replica is None or one.reference is None:
                continue
            yield _difference_table(one, other.difference, (names[id(one.reference)], names[id(other.replica)]))


def _difference_table(compared: ComparedPartition, found: Difference, names: tuple[str, str]) -> Table:
    """Return the batches side by side: their places, and the fields that differ."""
    end = compared.committed_end
    where = "" if end is None else f", {'below' if found.offset < end else 'at or above'} the high watermark {end:,}"
    title = f"{compared.partition}: {names[0]} and {names[1]} differ from offset {found.offset:,} on{where}"
    if found.kind is DifferenceKind.UNREADABLE:
        return Table(rows=[{"reason": found.reason}], title=title)
    rows: list[Row] = [
        {
            "field": pair.name.replace("_", " ") + (" (differs)" if pair.differs else ""),
            names[0]: pair.reference,
            names[1]: pair.replica,
        }
        for pair in difference_fields(found)
    ]
    if found.kind is DifferenceKind.RECORDS:
        what = ", ".join(found.fields) if found.fields else f"byte {found.byte:,} of the batch"
        rows.append({"field": f"differs: {what}", names[0]: None, names[1]: None})
    return Table(rows=rows, columns=["field", *names], title=title, show=dict.fromkeys(names, _plain))


def _plain(value: object) -> str:
    return {True: "yes", False: "no"}[value] if isinstance(value, bool) else str(value)


def notes_of(compared: Sequence[ComparedPartition]) -> Iterator[str]:
    states = Counter(one.state.value for partition in compared for one in partition.replicas)
    counts = ", ".join(f"{count:,} {state}" for state, count in states.items())
    yield f"{len(compared):,} partitions, {sum(states.values()):,} replicas: {counts or 'none'}."
    absent = sorted({one.node_id for p in compared for one in p.replicas if one.state == "not given" and one.node_id})
    if absent:
        yield f"No directory was given of the nodes {', '.join(map(str, absent))}, which have replicas too."
    problems = sum(len(one.problems) for one in compared)
    yield f"{problems:,} problem{'s' * (problems != 1)}." if problems else "No problem found."
    hidden = max(0, sum(1 for _ in _difference_tables(compared)) - _MOST_TABLES)
    if hidden:
        yield f"{hidden:,} more differences are not shown; --json has all of them."
