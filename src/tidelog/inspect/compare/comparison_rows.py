"""The rows of a comparison: a row for each replica, the epochs side by side, and the fields of a difference. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from tidelog.inspect.compare.broker_directory import Replica
from tidelog.inspect.compare.difference import BatchPlace, Difference
from tidelog.inspect.compare.partition_comparison import ComparedPartition, ComparedReplica
from tidelog.kernel import BatchRow

Row = Mapping[str, object]
_PLACE_FIELDS = ("base_offset", "last_offset", "leader_epoch", "record_count", "size", "crc")
"""The fields of a batch that are always shown, because they identify it."""


def replica_rows(compared: ComparedPartition) -> Iterator[Row]:
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
        difference = None if one.difference is None else _difference_row(one.difference)
        yield head | _replica_row(one) | assigned | {"difference": difference, "problems": list(one.problems)}


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


def replica_names(compared: ComparedPartition) -> dict[int, str]:
    """Return a short name for each replica, by ``id``: the node, or the directory if the node is not unique."""
    replicas = [one.replica for one in compared.replicas if one.replica is not None]
    counts = Counter(replica.directory.node_id for replica in replicas)
    return {
        id(replica): str(replica.directory.path)
        if replica.directory.node_id is None or counts[replica.directory.node_id] > 1
        else f"node {replica.directory.node_id}"
        for replica in replicas
    }


def readable_replicas(compared: ComparedPartition) -> list[Replica]:
    """Return the replicas whose logs can be read, the reference first."""
    return [one.replica for one in compared.replicas if one.replica is not None and one.replica.is_readable]


def epoch_starts(compared: ComparedPartition) -> list[tuple[int, list[int | None]]]:
    """Return each leader epoch with its start offsets in the readable replicas, None where a replica lacks it."""
    starts = [dict(replica.epochs) for replica in readable_replicas(compared)]
    epochs = sorted({epoch for own in starts for epoch in own})
    return [(epoch, [own.get(epoch) for own in starts]) for epoch in epochs]


@dataclass(frozen=True, slots=True)
class FieldPair:
    """A field of the two batches of a difference. ``name`` is a field of the batch table, ``file`` or ``position``."""

    name: str
    reference: object
    replica: object
    differs: bool


def difference_fields(found: Difference) -> list[FieldPair]:
    """Return the places of the two batches, the fields that tell which batch it is, and all fields that differ."""
    fields = [name for name in BatchRow._fields if name in found.fields]
    shown = ["file", "position", *dict.fromkeys([*_PLACE_FIELDS, *fields])]
    if not all(place is None or place.row.crc_ok for place in (found.left, found.right)):
        shown.append("crc_ok")
    return [
        FieldPair(name, _value(name, found.left), _value(name, found.right), name in found.fields) for name in shown
    ]


def _value(name: str, place: BatchPlace | None) -> object:
    if place is None:
        return None
    return str(place.path) if name == "file" else getattr(place.row, name)
