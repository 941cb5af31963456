"""The reading of a metadata log into a ``MetadataTimeline``.

Reading stops at the first batch that recovery would not keep, and tells where. A record that does not decode has a row
of its own. The state before the log comes from the newest snapshot at or below the log start. Reads only.

Thread rule: one thread.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np

from tidelog.kernel import BatchTable, ColumnDecoder, Stop
from tidelog.model import CorruptRecordError, TidelogError, UnsupportedCompressionError
from tidelog.record.control import ControlType, control_type
from tidelog.record.decode import decode_chunk, iter_records
from tidelog.record.quorum import quorum_fields
from tidelog.runtime.progress import Advance
from tidelog.server.metadata.kraft.snapshot import BOOTSTRAP_ID, read_image_batches
from tidelog.server.metadata.metadata_record import decode_record
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.load.listing import list_with_sizes
from tidelog.storage.log.view.view_state import stop_reason
from tidelog.storage.manager.metadata.cluster_metadata_log import list_snapshots, valid_batches
from tidelog.storage.segment.file_names import FileKind
from tidelog.storage.segment.segment_reader import Chunk, SegmentReader
from tidelog.web.reports.metadata_changes import Change, ChangeWriter
from tidelog.web.reports.metadata_timeline import (
    ABORTED,
    IN_EFFECT,
    LEADER_CHANGE,
    NO_OP,
    NOT_ENDED,
    NOTHING,
    UNREADABLE,
    MetadataTimeline,
    QuorumEpoch,
    SnapshotFile,
    TimelineDamage,
)

_NO_OP_TYPE: Final = 20
_CONTROL_NAMES: Final = {
    ControlType.LEADER_CHANGE: LEADER_CHANGE,
    ControlType.KRAFT_VERSION: "KRaftVersion",
    ControlType.KRAFT_VOTERS: "KRaftVoters",
}


def read_timeline(fs: FileSystem, directory: Path, advance: Advance = lambda _bytes: None) -> MetadataTimeline:
    """Read a metadata log. Raise FileMissingError or DirectoryError if it cannot be listed.

    Errors in a snapshot become notes, and errors in a batch end the reading there. ``advance`` receives the bytes read.
    """
    segments = list_with_sizes(fs, directory).segments
    sizes = fs.list_sizes(directory)
    snapshots = [SnapshotFile(one, sizes.get(one.file_name, 0)) for one in list_snapshots(fs, directory)]
    made = _Columns()
    if segments:
        _load_before(fs, directory, snapshots, segments[0].base_offset, made)
    damage = None
    for number, segment in enumerate(segments):
        damage = _read_segment(fs, directory, segment.base_offset, made, advance)
        if damage is not None:
            if number < len(segments) - 1:
                made.notes.append(f"{len(segments) - 1 - number:,} later segments are not shown")
            break
    return made.timeline(directory, snapshots, sum(max(0, one.sizes.get(FileKind.LOG, 0)) for one in segments), damage)


def _load_before(
    fs: FileSystem, directory: Path, snapshots: Sequence[SnapshotFile], log_start: int, made: _Columns
) -> None:
    at_start = [one.id for one in snapshots if one.id.offset <= log_start and one.id != BOOTSTRAP_ID]
    later = [one.id for one in snapshots if one.id.offset > log_start]
    if not log_start or not (at_start or later):
        return
    chosen = at_start[-1] if at_start else later[0]
    try:
        for batch in read_image_batches(fs, directory, chosen):
            made.writer.load(batch.records)
    except TidelogError as error:
        made.notes.append(f"the snapshot {chosen.file_name} cannot be read, so earlier values are not known: {error}")
    if not at_start:
        made.notes.append(f"no snapshot at the log start {log_start:,}: earlier values are those of {chosen.file_name}")


def _read_segment(
    fs: FileSystem, directory: Path, base_offset: int, made: _Columns, advance: Advance
) -> TimelineDamage | None:
    with SegmentReader(fs, directory, base_offset) as reader:
        for chunk in reader.chunks():
            valid = valid_batches(chunk.table)
            made.add_chunk(chunk._replace(table=valid))
            advance(len(chunk.buffer))
            if len(valid) < len(chunk.table):
                row = chunk.table.row(len(valid))
                reason = "the CRC of a batch does not match its bytes"
                return TimelineDamage(reader.path, row.position, reader.size - row.position, reason)
            if chunk.table.stop not in (Stop.END, Stop.PARTIAL):
                end = chunk.table.end_position
                return TimelineDamage(reader.path, end, reader.size - end, stop_reason(chunk.table.stop))
            last = chunk.table
        if reader.size and last.stop is Stop.PARTIAL and last.end_position < reader.size:
            rest = reader.size - last.end_position
            return TimelineDamage(reader.path, last.end_position, rest, stop_reason(Stop.PARTIAL))
    return None


@dataclass(slots=True)
class _Columns:
    """The columns while they grow."""

    writer: ChangeWriter = field(default_factory=ChangeWriter)
    offset: array[int] = field(default_factory=lambda: array("q"))
    time_ms: array[int] = field(default_factory=lambda: array("q"))
    epoch: array[int] = field(default_factory=lambda: array("i"))
    effect: array[int] = field(default_factory=lambda: array("b"))
    type_number: array[int] = field(default_factory=lambda: array("h"))
    topic_number: array[int] = field(default_factory=lambda: array("i"))
    partition: array[int] = field(default_factory=lambda: array("i"))
    brokers_number: array[int] = field(default_factory=lambda: array("i"))
    texts: bytearray = field(default_factory=bytearray)
    text_end: array[int] = field(default_factory=lambda: array("q"))
    types: dict[str, int] = field(default_factory=dict)
    topics: dict[str, int] = field(default_factory=dict)
    brokers: dict[tuple[int, ...], int] = field(default_factory=dict)
    epochs: list[QuorumEpoch] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    transaction_at: int | None = None
    """The first row of the open transaction."""

    def add_chunk(self, chunk: Chunk) -> None:
        table = chunk.table
        row = 0
        while row < len(table):
            decoder = ColumnDecoder(headers=False)
            error: TidelogError | None = None
            first = row
            try:
                row = decode_chunk(chunk.buffer, table, decoder, base_position=chunk.base_position, first=first)
            except (CorruptRecordError, UnsupportedCompressionError) as found:
                error, row = found, max(first, decoder.stopped_at) + 1
            if decoder.rows:
                self._add_records(decoder, table)
            if error is not None:
                bad = table.row(row - 1)
                self._add(bad.base_offset, bad.max_timestamp, bad.leader_epoch, UNREADABLE, Change(error.message))

    def _add_records(self, decoder: ColumnDecoder, table: BatchTable) -> None:
        columns = decoder.finish()
        batch = np.minimum(np.searchsorted(table.last_offset, columns.offset), len(table) - 1)
        epochs = table.leader_epoch[batch].tolist()
        controls = table.is_control[batch].tolist()
        for record, epoch, is_control in zip(iter_records(columns), epochs, controls, strict=True):
            value = record.value or b""
            if is_control:
                self._add_control(record.offset, record.timestamp, epoch, record.key, record.value)
            elif len(value) > 1 and value[1] == _NO_OP_TYPE and value[0] == 1:
                self._add(record.offset, record.timestamp, epoch, NO_OP, None)
            else:
                self._add_value(record.offset, record.timestamp, epoch, value)

    def _add_value(self, offset: int, time_ms: int, epoch: int, value: bytes) -> None:
        try:
            record = decode_record(value)
        except Exception as error:  # any program may have written the log
            self._add(offset, time_ms, epoch, UNREADABLE, Change(f"the record does not decode: {error}"))
            return
        self._add(offset, time_ms, epoch, record.name, self.writer.write(record))
        if record.name == "BeginTransactionRecord":
            self.transaction_at = len(self.offset) - 1
        elif record.name == "EndTransactionRecord":
            self.transaction_at = None
        elif record.name == "AbortTransactionRecord" and self.transaction_at is not None:
            self._mark_transaction(ABORTED)
            self.transaction_at = None

    def _add_control(self, offset: int, time_ms: int, epoch: int, key: bytes | None, value: bytes | None) -> None:
        try:
            type_ = control_type(key)
            fields = quorum_fields(type_, value)
        except TidelogError as error:
            self._add(offset, time_ms, epoch, UNREADABLE, Change(f"the control record does not decode: {error}"))
            return
        name = _CONTROL_NAMES.get(type_, type_.name)
        match type_:
            case ControlType.LEADER_CHANGE:
                voters = tuple(voter["voterId"] for voter in fields["voters"])
                leader = fields["leaderId"]
                self.epochs.append(QuorumEpoch(epoch, offset, time_ms, leader, voters))
                sentence = f"node {leader} leads the quorum in epoch {epoch} (voters {', '.join(map(str, voters))})"
            case ControlType.KRAFT_VERSION:
                sentence = f"kraft.version is {fields['kRaftVersion']}"
            case ControlType.KRAFT_VOTERS:
                voters = tuple(voter["voterId"] for voter in fields["voters"])
                sentence = f"the voters are {', '.join(map(str, voters)) or 'none'}"
            case _:
                sentence = f"a control record {type_.name}"
        self._add(offset, time_ms, epoch, name, Change(sentence))

    def _add(self, offset: int, time_ms: int, epoch: int, type_: str, change: Change | None) -> None:
        self.offset.append(offset)
        self.time_ms.append(time_ms)
        self.epoch.append(epoch)
        self.effect.append(IN_EFFECT)
        self.type_number.append(self.types.setdefault(type_, len(self.types)))
        topic = partition = brokers = NOTHING
        if change is not None:
            self.texts += change.sentence.encode(errors="surrogatepass")
            if change.topic is not None:
                topic = self.topics.setdefault(change.topic, len(self.topics))
            if change.partition is not None:
                partition = change.partition
            if change.brokers:
                brokers = self.brokers.setdefault(change.brokers, len(self.brokers))
        self.topic_number.append(topic)
        self.partition.append(partition)
        self.brokers_number.append(brokers)
        self.text_end.append(len(self.texts))
        if (not self.epochs or self.epochs[-1].epoch < epoch) and type_ != LEADER_CHANGE:
            self.epochs.append(QuorumEpoch(epoch, offset, time_ms, None))

    def _mark_transaction(self, effect: int) -> None:
        first = self.transaction_at
        if first is not None:
            for row in range(first + 1, len(self.effect)):
                self.effect[row] = effect

    def timeline(
        self, directory: Path, snapshots: Sequence[SnapshotFile], log_bytes: int, damage: TimelineDamage | None
    ) -> MetadataTimeline:
        self._mark_transaction(NOT_ENDED)
        return MetadataTimeline(
            directory=directory,
            offset=np.array(self.offset, np.int64),
            time_ms=np.array(self.time_ms, np.int64),
            epoch=np.array(self.epoch, np.int32),
            effect=np.array(self.effect, np.int8),
            type_number=np.array(self.type_number, np.int16),
            topic_number=np.array(self.topic_number, np.int32),
            partition=np.array(self.partition, np.int32),
            brokers_number=np.array(self.brokers_number, np.int32),
            texts=bytes(self.texts),
            text_end=np.array(self.text_end, np.int64),
            types=list(self.types),
            topics=list(self.topics),
            brokers=list(self.brokers),
            epochs=self.epochs,
            snapshots=snapshots,
            log_bytes=log_bytes,
            damage=damage,
            notes=self.notes,
        )
