"""The rows and tables of ``tidelog compare``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from tidelog.cli.report import Row, Table
from tidelog.inspect.compare import BatchPlace, ComparedPartition, ComparedReplica, Difference, DifferenceKind
from tidelog.kernel import BatchRow

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


def rows_of(compared: ComparedPartition) -> Iterator[Row]:
    """Yield a row for each replica."""
    placement = compared.placement
    head = {"topic": compared.partition.topic, "partition": compared.partition.partition}
    assigned = {
        "leader": None if placement is None or placement.leader < 0 else placement.leader,
        "metadata_epoch": None if placement is None else placement.leader_epoch,
        "replicas": None if placement is None else list(placement.replicas),
        "isr": None if placement is None else list(placement.isr),
        "elr": None if placement is None else list(placement.elr),
        "compacted": compared.is_compacted,
        "committed_end": compared.committed_end,
    }
    for one in compared.replicas:
        yield (
            head
            | _replica_row(one)
            | assigned
            | {
                "difference": None if one.difference is None else _difference_row(one.difference),
                "problems": list(one.problems),
            }
        )


def _replica_row(one: ComparedReplica) -> dict[str, object]:
    replica, truncation = one.replica, one.truncation
    is_known = replica is not None and replica.is_readable
    return {
        "node_id": one.node_id,
        "directory": None if replica is None else str(replica.directory.path),
        "role": one.role.value,
        "state": one.state.value,
        "log_start": replica.log_start if replica is not None and is_known else None,
        "high_watermark": None if replica is None else replica.checkpointed,
        "log_end": replica.log_end if replica is not None and is_known else None,
        "lag": one.lag,
        "leader_epoch": replica.latest_epoch if replica is not None and replica.epochs else None,
        "epochs": None if replica is None else [list(entry) for entry in replica.epochs],
        "truncated_to": None if truncation is None else truncation.offset,
        "truncated_records": one.truncated_records,
        "starts_over_at": None if truncation is None else truncation.starts_over_at,
        "reference_truncated_to": one.reference_truncated_to,
    }


def _difference_row(found: Difference) -> Row:
    return {
        "kind": found.kind.value,
        "offset": found.offset,
        "fields": list(found.fields),
        "byte": found.byte,
        "reason": found.reason,
        "reference": _place_row(found.left),
        "replica": _place_row(found.right),
    }


def _place_row(place: BatchPlace | None) -> Row | None:
    return None if place is None else {"file": str(place.path), **place.row._asdict()}


def tables_of(compared: Sequence[ComparedPartition]) -> list[Table]:
    rows = [row for one in compared for row in rows_of(one)]
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
        readable = [other.replica for other in one.replicas if other.replica is not None and other.replica.is_readable]
        if len({replica.epochs for replica in readable}) < 2:
            continue
        names = _unique_names(one)
        epochs = sorted({entry.epoch for replica in readable for entry in replica.epochs})
        rows: list[Row] = [
            {"epoch": epoch, **{names[id(replica)]: dict(replica.epochs).get(epoch) for replica in readable}}
            for epoch in epochs
        ]
        yield Table(rows=rows, title=f"{one.partition}: start offsets of the leader epochs")


def _unique_names(compared: ComparedPartition) -> dict[int, str]:
    """Return a column title for each replica: the node, or the directory if the node is not unique."""
    replicas = [one.replica for one in compared.replicas if one.replica is not None]
    counts = Counter(replica.directory.node_id for replica in replicas)
    return {
        id(replica): str(replica.directory.path)
        if replica.directory.node_id is None or counts[replica.directory.node_id] > 1
        else f"node {replica.directory.node_id}"
        for replica in replicas
    }


def _difference_tables(compared: Sequence[ComparedPartition]) -> Iterator[Table]:
    for one in compared:
        names = _unique_names(one)
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
    fields = [name for name in BatchRow._fields if name in found.fields]
    place_fields = ("base_offset", "last_offset", "leader_epoch", "record_count", "size", "crc")
    shown = ["file", "position", *dict.fromkeys([*place_fields, *fields])]
    if not all(place is None or place.row.crc_ok for place in (found.left, found.right)):
        shown.append("crc_ok")
    rows = [_side_by_side(name, found, names) for name in shown]
    if found.kind is DifferenceKind.RECORDS:
        what = ", ".join(found.fields) if found.fields else f"byte {found.byte:,} of the batch"
        rows.append({"field": f"differs: {what}", names[0]: None, names[1]: None})
    return Table(rows=rows, columns=["field", *names], title=title, show=dict.fromkeys(names, _plain))


def _side_by_side(name: str, found: Difference, names: tuple[str, str]) -> Row:
    cells = {}
    for title, place in zip(names, (found.left, found.right), strict=True):
        cells[title] = None if place is None else str(place.path) if name == "file" else getattr(place.row, name)
    label = name.replace("_", " ") + (" (differs)" if name in found.fields else "")
    return {"field": label, **cells}


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
