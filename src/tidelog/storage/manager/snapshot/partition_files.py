"""The files of one partition of a snapshot, made from the parts of its plan.

On return everything is on the disk but not loaded: ``partition_finish`` recovers and closes the log. If an owner
replaces or removes files of the source meanwhile, the partition is planned and made again. A link is accepted only if
the source still has the same file under the same name after the indexes were copied: a log and the indexes of its
compacted successor do not fit. Thread rule: one caller for a partition.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import FileMissingError, StorageError
from tidelog.record.build import BatchFields, build_empty_batch
from tidelog.record.truncated_batch import truncate_batch
from tidelog.storage.checkpoint import PARTITION_METADATA_FILE
from tidelog.storage.epoch import LEADER_EPOCH_CHECKPOINT, LeaderEpochCache, LeaderEpochCheckpoint
from tidelog.storage.fs import FileSystem, copy_bytes, read_whole
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.manager.directory.unfinished_directory import remove_tree
from tidelog.storage.manager.snapshot.partition_parts import INDEX_KINDS, PartitionParts, SegmentPart
from tidelog.storage.segment.file_names import FileKind, segment_file

_ATTEMPTS = 5
_SMALL_FILES = (LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA_FILE)


class _ChangedError(Exception):
    """A file of the source was replaced during the copy. Internal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartitionFiles:
    """The files of a partition in the snapshot. ``linked`` and ``copied`` count the segments. Sizes are in bytes."""

    parts: PartitionParts
    source: Path
    directory: Path
    """The partition's directory in the snapshot."""
    linked: int
    copied: int
    linked_bytes: int
    copied_bytes: int


class PartitionPlacement:
    """The placement of a partition's files in a snapshot."""

    def __init__(
        self,
        fs: FileSystem,
        view: LogView,
        directory: Path,
        plan: Callable[[], PartitionParts],
        tell: Callable[[int], None],
    ) -> None:
        """``tell`` gets the bytes of each step, and its exception ends the work."""
        self._fs = fs
        self._view = view
        self._directory = directory
        self._plan = plan
        self._tell = tell

    def make(self, extra_files: Callable[[Path], list[str]] = lambda _directory: []) -> PartitionFiles:
        """Make the directory. ``extra_files`` names further files of the source's directory to copy.

        Raise StorageError if the files of a running owner keep changing.
        """
        for _ in range(_ATTEMPTS):
            try:
                return self._make(self._plan(), extra_files)
            except (FileMissingError, _ChangedError):
                pass
            remove_tree(self._fs, self._directory)
            self._view.refresh()
        raise StorageError(f"files of the partition changed during {_ATTEMPTS} attempts to copy it", path=self._source)

    @property
    def _source(self) -> Path:
        return self._view.directory

    def _make(self, parts: PartitionParts, extra_files: Callable[[Path], list[str]]) -> PartitionFiles:
        self._fs.make_dir(self._directory)
        copied_bytes = linked_bytes = linked = 0
        for part in parts.parts:
            if self._add_segment(part, parts.end.offset):
                linked += 1
                linked_bytes += part.size
                copied_bytes += part.index_bytes
            else:
                copied_bytes += part.copied_bytes + (part.size if part.is_linked else 0)
        if parts.new_segment_at is not None:
            copied_bytes += self._add_new_segment(parts, parts.new_segment_at)
        snapshots = [segment_file(self._source, offset, FileKind.SNAPSHOT).name for offset in parts.snapshots]
        for name in (*snapshots, *_SMALL_FILES, *extra_files(self._source)):
            self._copy_if_there(name)
        self._fs.sync_dir(self._directory)
        if linked:
            # A power loss must not take the name of the segment after a linked one: its owner would append to the link.
            self._fs.sync_dir(self._source)
        return PartitionFiles(
            parts=parts,
            source=self._source,
            directory=self._directory,
            linked=linked,
            copied=len(parts.parts) - linked,
            linked_bytes=linked_bytes,
            copied_bytes=copied_bytes,
        )

    def _add_segment(self, part: SegmentPart, log_end: int) -> bool:
        """Add a segment's files. Return True if its ``.log`` is a link."""
        source = part.segment.files.path(self._source, FileKind.LOG)
        target = segment_file(self._directory, part.base_offset, FileKind.LOG)
        known = self._fs.stat(source)
        is_linked = part.is_linked and self._fs.link(source, target)
        if is_linked:
            with self._fs.open(target) as file:
                file.sync()
                self._require(file.size == part.size)
            self._tell(part.size)
        else:
            self._copy_log(source, target, part, log_end)
        if part.keeps_indexes:
            for kind in INDEX_KINDS:
                if kind in part.segment.files.kinds:
                    self._copy_file(
                        part.segment.files.path(self._source, kind),
                        segment_file(self._directory, part.base_offset, kind),
                    )
            wanted = self._fs.stat(target) if is_linked else known
            self._require(self._fs.stat(source).file_id == wanted.file_id)
        return is_linked

    def _add_new_segment(self, parts: PartitionParts, base_offset: int) -> int:
        """Add a segment, empty or with an empty batch, and return its bytes."""
        batch = self._batch_before(parts.end.offset) if parts.ends_in_gap else b""
        for kind, content in ((FileKind.LOG, batch), (FileKind.INDEX, b""), (FileKind.TIME_INDEX, b"")):
            with self._fs.open(segment_file(self._directory, base_offset, kind), create=True) as file:
                if content:
                    file.pwrite(content, 0)
                    file.sync()
        return len(batch)

    def _batch_before(self, offset: int) -> bytearray:
        """Return an empty batch with the offset before ``offset``, and with its leader epoch at the source."""
        epochs = LeaderEpochCache(LeaderEpochCheckpoint.read(self._fs, self._source / LEADER_EPOCH_CHECKPOINT))
        epoch = epochs.epoch_for_offset(offset - 1)
        fields = BatchFields(leader_epoch=-1 if epoch is None else epoch)
        return build_empty_batch(base_offset=offset - 1, last_offset=offset - 1, max_timestamp=-1, fields=fields)

    def _copy_log(self, source: Path, target: Path, part: SegmentPart, log_end: int) -> None:
        with self._fs.open(source) as reading, self._fs.open(target, create=True) as writing:
            self._require(copy_bytes(reading, writing, part.size, self._tell) == part.size)
            if part.split_batch is not None:
                split = part.split_batch
                kept = truncate_batch(reading.pread(split.size, split.position), log_end)
                self._require(len(kept) == split.kept_bytes)
                writing.pwrite(kept, part.size)
            writing.sync()
        self._fs.set_mtime(target, self._fs.stat(source).mtime_ms)

    def _copy_if_there(self, name: str) -> None:
        try:
            self._copy_file(self._source / name, self._directory / name)
        except FileMissingError:
            if not self._fs.exists(self._source):
                raise

    def _copy_file(self, source: Path, target: Path) -> None:
        data = read_whole(self._fs, source)
        with self._fs.open(target, create=True) as file:
            file.pwrite(data, 0)
            file.sync()

    def _require(self, is_unchanged: bool) -> None:
        if not is_unchanged:
            raise _ChangedError
