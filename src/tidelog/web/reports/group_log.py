"""The groups and offsets in partitions of ``__consumer_offsets``, as a coordinator would load them.

The records are applied by the coordinator's own code (``server.groups.records.replay``), so types, states and expiry
are those of a broker. Records that cannot be decoded are counted, and the rest counts. The log has the previous
generation of a group that is in the middle of a rebalance.

The module only reads, several partitions in parallel. Memory grows with the number of groups and offsets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Final, TypeVar

from tidelog.model import CancelledError, TidelogError, TopicPartition
from tidelog.model.internal_topics import GROUP_METADATA_TOPIC
from tidelog.record.control import ControlType, control_type
from tidelog.record.internal_records.committed_offset import OFFSETS, OffsetAndMetadata
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.record.rows import iter_records
from tidelog.runtime.progress import Advance
from tidelog.server.groups.offsets.expiry import expiry_times
from tidelog.server.groups.records.replay import NO_PRODUCER, Replay
from tidelog.server.groups.state.classic_group import ClassicGroup
from tidelog.server.groups.state.group_map import Group, GroupMap
from tidelog.server.groups.state.offset_store import OffsetStore
from tidelog.storage.log.view.column_stream import ColumnChoice, column_chunks
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.partitions import each_partition
from tidelog.storage.log.view.row_stream import ReadRange, counted
from tidelog.web.sources import LogDir

T = TypeVar("T")
_CHOICE = ColumnChoice(headers=False)
_MEMBERS: Final = frozenset({5, 10, 19})
"""The record types of a member's metadata."""


@dataclass(slots=True, kw_only=True)
class LogCounts:
    """The numbers of a partition of ``__consumer_offsets``. With ``error``, they are those before the error."""

    log_dir_key: str
    source: TopicPartition
    undecoded: int = 0
    first_undecoded: int | None = None
    error: TidelogError | None = None
    offset_count: int = 0
    group_count: int = 0


@dataclass(slots=True, kw_only=True)
class GroupLog(LogCounts):
    """The contents of a partition of ``__consumer_offsets``. With ``error``, it has the records before the error."""

    only: str | None = None
    """The group whose records are read, or None for all groups."""
    groups: GroupMap = field(default_factory=GroupMap)
    offsets: OffsetStore = field(default_factory=OffsetStore)
    newest: dict[str, int] = field(default_factory=dict)
    """The offset of each group's newest record that is no committed offset."""
    members: dict[tuple[str, str], int] = field(default_factory=dict)
    """The offset of the newest record with a member's metadata, by group and member id."""

    def group_ids(self) -> list[str]:
        """Return the groups that exist, and those of which only offsets are left."""
        return list(dict.fromkeys([*self.groups, *self.offsets.group_ids]))

    def counts(self) -> LogCounts:
        """Return the numbers alone, which need little memory."""
        return LogCounts(**{one.name: getattr(self, one.name) for one in fields(LogCounts)})

    def place(self, group_id: str) -> GroupPlace:
        return GroupPlace(group_id, self, self.groups.get(group_id))


@dataclass(frozen=True, slots=True)
class GroupPlace:
    """A group in its partition of ``__consumer_offsets``. ``group`` is None if only its offsets are left."""

    group_id: str
    log: GroupLog
    group: Group | None

    @property
    def offsets(self) -> Mapping[TopicPartition, OffsetAndMetadata]:
        return self.log.offsets.of_group(self.group_id)


def times_of_expiry(place: GroupPlace, retention_ms: int) -> Mapping[TopicPartition, int | None]:
    """Return the time at which each offset expires, None for never. Offsets without a group count from their commit."""
    group = ClassicGroup(group_id=place.group_id) if place.group is None else place.group
    return expiry_times(group, place.log.offsets, retention_ms=retention_ms)


def read_group_logs(
    log_dir: LogDir, only: Iterable[TopicPartition], take: Callable[[GroupLog], T], advance: Advance
) -> list[T]:
    """Return the result of ``take`` for each of these partitions of ``__consumer_offsets``. It runs in several threads.

    The end is the high watermark if a process holds the directory. Raise DirectoryError if the directory cannot be
    listed.
    """

    def read(view: LogView, partition: TopicPartition, tell: Advance) -> T:
        return take(_read(GroupLog(log_dir_key=log_dir.key, source=partition), view, tell))

    return each_partition(log_dir.fs, log_dir.path, read, topic=GROUP_METADATA_TOPIC, only=only, advance=advance)


def read_group(log_dir: LogDir, source: TopicPartition, group_id: str, advance: Advance) -> GroupPlace:
    """Read one group of a partition of ``__consumer_offsets``. Raise NotFoundError if the partition is gone."""
    view = log_dir.view(source.directory_name)
    found = GroupLog(log_dir_key=log_dir.key, source=source, only=group_id)
    return _read(found, view, advance).place(group_id)


def _read(found: GroupLog, view: LogView, advance: Advance) -> GroupLog:
    try:
        _read_partition(view, found, advance)
    except CancelledError:
        raise
    except TidelogError as error:
        found.error = error
    found.offset_count, found.group_count = found.offsets.count, len(found.group_ids())
    return found


def _read_partition(view: LogView, found: GroupLog, advance: Advance) -> None:
    replay = Replay(found.groups, found.offsets)
    wanted = ReadRange(start=view.log_start, end=view.end_offset(), control=True)
    stream = view.batches(wanted, on_lost=lambda _reason: None)  # removed records count no longer
    for chunk in column_chunks(counted(stream, advance), _CHOICE, wanted.start, wanted.end):
        table, rows = chunk.table, chunk.columns.batch
        assert rows is not None
        producers = [
            producer if is_transactional else NO_PRODUCER
            for producer, is_transactional in zip(
                table.producer_id.tolist(), table.is_transactional.tolist(), strict=True
            )
        ]
        controls = table.is_control.tolist()
        for record, row in zip(iter_records(chunk.columns), rows.tolist(), strict=True):
            if controls[row]:
                _end_transaction(replay, record.key, producers[row])
            elif record.key is not None:
                _apply(found, replay, record.offset, record.key, record.value, producers[row])


def _end_transaction(replay: Replay, key: bytes | None, producer_id: int) -> None:
    try:
        type_ = control_type(key)
    except TidelogError:
        return  # the transaction stays pending, so a reader sees too few commits and never an aborted one
    if type_ in (ControlType.COMMIT, ControlType.ABORT):
        replay.end_transaction(producer_id, is_commit=type_ is ControlType.COMMIT)


def _apply(found: GroupLog, replay: Replay, offset: int, key: bytes, value: bytes | None, producer_id: int) -> None:
    try:
        record = GroupRecord.read(key, value)
        group = "" if record is None else record.key.get("group", record.key.get("groupId", ""))
        if found.only not in (None, group):
            return
        if record is not None:
            replay.apply(record, offset, producer_id)
    except (TidelogError, ValueError, AssertionError, LookupError):
        record = None  # fields that contradict each other: two members with one instance id, epochs without partitions
    if record is None:
        found.undecoded += 1
        found.first_undecoded = offset if found.first_undecoded is None else found.first_undecoded
        return
    if record.number in OFFSETS:
        return
    found.newest[group] = offset
    if record.number in _MEMBERS:
        found.members[group, record.key["memberId"]] = offset
