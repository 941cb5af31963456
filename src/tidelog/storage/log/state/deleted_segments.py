"""Segments that were removed from the log: renamed ``.deleted`` immediately, removed later.

Their files stay for ``file.delete.delay.ms``, so that readers can finish. The class owns the queue of files to remove.
The caller provides the clock and the thread that runs ``remove_due``. Snapshots go the same way. A crash leaves
``.deleted`` files, which the next loading removes.

Thread rule: the caller holds the partition's lock. Source: Kafka's ``LocalLog.deleteSegmentFiles``.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tidelog.storage.fs import FileSystem
from tidelog.storage.segment.file_names import FileState
from tidelog.storage.segment.segment import LogSegment


class DeletedSegments:
    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs
        self._queue: list[tuple[int, LogSegment | Path]] = []

    def __len__(self) -> int:
        """Return the number of segments and snapshots that wait for removal."""
        return len(self._queue)

    @property
    def next_due_ms(self) -> int | None:
        return min((due_ms for due_ms, _ in self._queue), default=None)

    def add(self, segments: Iterable[LogSegment], due_ms: int) -> None:
        """Rename the files of each segment. They may be removed from ``due_ms`` on."""
        for segment in segments:
            segment.change_state(FileState.DELETED)
            self._queue.append((due_ms, segment))

    def add_renamed(self, segments: Iterable[LogSegment], due_ms: int) -> None:
        """Add segments whose files have the suffix ``.deleted`` already."""
        for segment in segments:
            segment.set_state(FileState.DELETED)
            self._queue.append((due_ms, segment))

    def add_files(self, paths: Iterable[Path], due_ms: int) -> None:
        """Rename and add single files (snapshots). Ignore missing files."""
        for path in paths:
            if self._fs.exists(path):
                renamed = path.with_name(path.name + FileState.DELETED)
                self._fs.rename(path, renamed)
                self._queue.append((due_ms, renamed))

    def remove_due(self, now_ms: int) -> int:
        """Remove the files that are due. Return the number of segments."""
        due = [item for due_ms, item in self._queue if due_ms <= now_ms]
        self._queue = [entry for entry in self._queue if entry[0] > now_ms]
        for item in due:
            if isinstance(item, LogSegment):
                item.delete()
            else:
                self._fs.remove(item, missing_ok=True)
        return sum(isinstance(item, LogSegment) for item in due)

    def moved_to(self, directory: Path) -> None:
        """Take over the new path of the log's directory, which was renamed."""
        for number, (due_ms, item) in enumerate(self._queue):
            if isinstance(item, LogSegment):
                item.set_directory(directory)
            else:
                self._queue[number] = (due_ms, directory / item.name)

    def close_handlers(self) -> None:
        """Close the files. The next loading removes files that still wait."""
        for _, item in self._queue:
            if isinstance(item, LogSegment):
                item.close_handlers()
        self._queue = []
