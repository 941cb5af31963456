"""The state of share groups, read from the ``__share_group_state`` partitions of a log directory (KIP-932).

A snapshot has the complete state of a group and a partition, and later updates change it. An update without a start
offset keeps the previous one. Its batches replace the states of their offsets. Offsets below the start offset are
finished, and offsets without a batch wait for a consumer.

===============  =====================================================================================
delivery state   meaning
===============  =====================================================================================
available (0)    it was delivered and released, and will be delivered again
acknowledged (2) a consumer has finished it
archived (4)     it was rejected, or delivered too often
archiving (5)    it will be archived when its copy in the dead letter queue is written (KIP-1191)
===============  =====================================================================================

The module only reads, several partitions in parallel. Source: Kafka's ``ShareCoordinatorShard``,
``PersisterStateBatchCombiner``; KIP-1226 for the backlog.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

from tidelog.model import CancelledError, TidelogError, TopicPartition
from tidelog.model.internal_topics import SHARE_GROUP_STATE_TOPIC
from tidelog.record.internal_records.frames import decode_key, decode_value
from tidelog.record.internal_records.share_tables import SHARE_TYPES
from tidelog.record.rows import iter_records
from tidelog.runtime.progress import Advance
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.view.column_stream import ColumnChoice, column_chunks
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import each_partition
from tidelog.storage.log.view.row_stream import ReadRange, counted

_SNAPSHOT: Final = 0
_CHOICE = ColumnChoice(headers=False)
DELIVERY_STATES: Final[Mapping[int, str]] = {0: "available", 2: "acknowledged", 4: "archived", 5: "archiving"}
ACKNOWLEDGED: Final = 2


class StateBatch(NamedTuple):
    """The delivery state of the offsets from ``first`` to ``last``."""

    first: int
    last: int
    state: int
    deliveries: int


class SharePartition(NamedTuple):
    """A partition as a share group reads it. ``topic_id`` is Kafka's text of 22 characters."""

    group: str
    topic_id: str
    partition: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ShareState:
    """The newest state. Times are in ms."""

    place: SharePartition
    start_offset: int | None
    """None if the group has not begun with the partition."""
    complete: int | None
    """The finished offsets from the start offset on. None if the record does not count them (Kafka 4.1 and before)."""
    state_epoch: int
    leader_epoch: int
    written_ms: int | None
    batches: tuple[StateBatch, ...]
    source: TopicPartition
    """The partition of ``__share_group_state`` that holds the newest record, at ``source_offset``."""
    source_offset: int

    def backlog(self, log_end: int) -> int | None:
        """Return the number of offsets up to the log end that are not finished, or None if it is not known."""
        if self.start_offset is None:
            return None
        finished = self.complete
        if finished is None:
            finished = sum(one.last - one.first + 1 for one in self.batches if one.state >= ACKNOWLEDGED)
        return max(0, log_end - self.start_offset - finished)


@dataclass(slots=True, kw_only=True)
class ShareLog:
    """The states in one partition of ``__share_group_state``. With ``error``, they are those read before the error."""

    source: TopicPartition
    states: dict[SharePartition, ShareState] = field(default_factory=dict)
    undecoded: int = 0
    error: TidelogError | None = None


def read_share_logs(
    fs: FileSystem,
    path: Path,
    *,
    only: Iterable[TopicPartition] | None = None,
    threads: int | None = None,
    advance: Advance = lambda _bytes: None,
) -> list[ShareLog]:
    """Return the states in each partition of ``__share_group_state`` in a log directory, or in those of ``only``."""

    def read(view: LogView, partition: TopicPartition, tell: Advance) -> ShareLog:
        found = ShareLog(source=partition)
        try:
            _read_partition(view, found, tell)
        except CancelledError:
            raise
        except TidelogError as error:
            found.error = error
        return found

    return each_partition(fs, path, read, topic=SHARE_GROUP_STATE_TOPIC, only=only, threads=threads, advance=advance)


def _read_partition(view: LogView, found: ShareLog, advance: Advance) -> None:
    wanted = ReadRange(start=view.log_start, end=view.end_offset())
    stream = view.batches(wanted, on_lost=lambda _reason: None)  # removed records count no longer
    for chunk in column_chunks(counted(stream, advance), _CHOICE, wanted.start, wanted.end):
        for record in iter_records(chunk.columns):
            if record.key is not None:
                _apply(found, record.offset, record.key, record.value)


def _apply(found: ShareLog, offset: int, key: bytes, value: bytes | None) -> None:
    try:
        place = decode_key(SHARE_TYPES, key)
        decoded = None if value is None else decode_value(SHARE_TYPES, place.number, value)
    except TidelogError:
        found.undecoded += 1
        return
    if place.fields is None or (decoded is not None and decoded.fields is None):
        found.undecoded += 1
        return
    where = SharePartition(place.fields["groupId"], place.fields["topicId"], place.fields["partition"])
    if decoded is None or decoded.fields is None:
        found.states.pop(where, None)
        return
    before = None if place.number == _SNAPSHOT else found.states.get(where)
    found.states[where] = _changed(before, decoded.fields, where, found.source, offset)


def _changed(
    before: ShareState | None, fields: Mapping[str, Any], place: SharePartition, source: TopicPartition, offset: int
) -> ShareState:
    start = fields["startOffset"] if fields["startOffset"] >= 0 else None
    if start is None and before is not None:
        start = before.start_offset
    complete = fields.get("deliveryCompleteCount", -1)
    new = [
        StateBatch(one["firstOffset"], one["lastOffset"], one["deliveryState"], one["deliveryCount"])
        for one in fields["stateBatches"]
    ]
    return ShareState(
        place=place,
        start_offset=start,
        complete=complete if complete >= 0 else None,
        state_epoch=fields.get("stateEpoch", -1 if before is None else before.state_epoch),
        leader_epoch=fields["leaderEpoch"],
        written_ms=fields.get("writeTimestamp", None if before is None else before.written_ms),
        batches=combine_batches(() if before is None else before.batches, new, start or 0),
        source=source,
        source_offset=offset,
    )


def combine_batches(old: Sequence[StateBatch], new: Sequence[StateBatch], start: int) -> tuple[StateBatch, ...]:
    """Return the states after an update. New batches win, neighbours with equal states are joined, and offsets below
    ``start`` are left out."""
    kept = list(old)
    for batch in new:
        if batch.last < batch.first:
            continue  # a damaged record: the range is empty
        parts = []
        for one in kept:
            if one.first < batch.first:
                parts.append(one._replace(last=min(one.last, batch.first - 1)))
            if one.last > batch.last:
                parts.append(one._replace(first=max(one.first, batch.last + 1)))
        kept = [*parts, batch]
    joined: list[StateBatch] = []
    for one in sorted(part._replace(first=max(part.first, start)) for part in kept if part.last >= start):
        last = joined[-1] if joined else None
        if last is not None and last.last + 1 == one.first and last[2:] == one[2:]:
            joined[-1] = last._replace(last=one.last)
        else:
            joined.append(one)
    return tuple(joined)
