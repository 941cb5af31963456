"""The starts and ends of a subscription's logs, polled by a stream.

A waiting stream polls a hundred times a second. So a partition is read again only after a change of its file names, its
newest log's size or time, or its checkpoints. Other changes (growing indexes, segments that compaction swapped in) move
none of its offsets. The class never writes. Its state is a view of each partition as last seen, and the directories'
checkpoints. Thread rule: one thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import FileMissingError, Isolation, TopicPartition
from tidelog.spark.read.bounds import ResolvedBounds
from tidelog.spark.read.found_partition import FoundPartition
from tidelog.spark.read.options import ReadOptions, Until
from tidelog.spark.read.planner import Warn, check_maps, find_partitions
from tidelog.spark.stream.stream_offsets import Offsets
from tidelog.storage.fs import BY_PATH
from tidelog.storage.log.view.directory_state import DirectoryState
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.segment.file_names import FileKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """The offsets that a partition can give."""

    log_start: int
    limit: int
    """The offset where a read may end now, by ``until`` and the isolation level."""
    log_end: int

    def held(self, known: int | None) -> int:
        """Return the latest offset for a stream that has reached ``known``.

        A limit below it is no loss while the log has the records. A restarted broker may have checkpointed an older
        high watermark than the log end that was read while the broker was down.
        """
        return self.limit if known is None else max(self.limit, min(known, self.log_end))


class LogWatch:
    def __init__(self, options: ReadOptions, warn: Warn) -> None:
        self._options = options
        self._warn = warn
        self._isolation = Isolation.READ_COMMITTED if options.read_committed else Isolation.READ_UNCOMMITTED
        self._until = None if options.until is Until.AUTO else options.until.value
        self.states: Mapping[Path, DirectoryState] = {}
        """The states of the log directories at the last poll."""
        self._seen: dict[TopicPartition, tuple[object, LogView, Reach]] = {}

    def look(self) -> dict[TopicPartition, Reach]:
        """Return every partition present now. Raise UnknownTopicOrPartitionError if a named one is missing."""
        found = find_partitions(self._options, self._warn, self.states)
        self.states = {entry.state.path: entry.state for entry in found}
        seen = {entry.partition: self._seen_now(entry) for entry in found}
        self._seen = {partition: now for partition, now in seen.items() if now is not None}
        return {partition: reach for partition, (_, _, reach) in self._seen.items()}

    def starting(self) -> Offsets:
        """Return the options' starting offsets for every partition of the last poll."""
        check_maps(self._options, set(self._seen))
        return {
            partition: ResolvedBounds.resolve(view, self._options, partition).start
            for partition, (_, view, _) in self._seen.items()
        }

    def _seen_now(self, entry: FoundPartition) -> tuple[object, LogView, Reach] | None:
        """Return the partition's current state, or None if its directory was removed meanwhile."""
        try:
            signature = _signature(entry)
            before = self._seen.get(entry.partition)
            if before is not None and before[0] == signature:
                return before
            view = LogView(BY_PATH, entry.directory, directory_state=entry.state)
            return signature, view, self._reach(view)
        except FileMissingError:
            if BY_PATH.exists(entry.directory):
                raise
            return None

    def _reach(self, view: LogView) -> Reach:
        limit = view.limit(self._isolation, self._until)
        return Reach(log_start=view.log_start, limit=limit, log_end=view.log_end)


def _signature(entry: FoundPartition) -> object:
    """Return a value that changes whenever a partition's offsets may have changed."""
    state, partition = entry.state, entry.partition
    names = BY_PATH.list_names(entry.directory)
    newest = max((name for name in names if name.endswith(FileKind.LOG)), default=None)
    return (
        str(entry.directory),
        state.condition,
        state.recovery_points.get(partition),
        state.log_start_offsets.get(partition),
        state.high_watermarks.get(partition),
        names,
        None if newest is None else BY_PATH.stat(entry.directory / newest),
    )
