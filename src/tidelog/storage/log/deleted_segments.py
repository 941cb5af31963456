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
        self._waiting: list[tuple[int, LogSegment | Path]] = []

    def __len__(self) -> int:
        """Return the number of segments and snapshots that wait for removal."""
        return len(self._waiting)

    @property
    def next_due_ms(self) -> int | None:
        return min((due_ms for due_ms, _ in self._waiting), default=None)

    def add(self, segments: Iterable[LogSegment], due_ms: int) -> None:
        """Rename the files of each segment. They may be removed from ``due_ms`` on."""
        for segment in segments:
            segment.change_state(FileState.DELETED)
            self._waiting.append((due_ms, segment))

    def add_renamed(self, segments: Iterable[LogSegment], due_ms: int) -> None:
        """Add segments whose files have the suffix ``.deleted`` already."""
        for segment in segments:
            segment.renamed(FileState.DELETED)
            self._waiting.append((due_ms, segment))

    def add_files(self, paths: Iterable[Path], due_ms: int) -> None:
        """Rename and add single files (snapshots). Ignore missing files."""
        for path in paths:
            if self._fs.exists(path):
                renamed = path.with_name(path.name + FileState.DELETED)
                self._fs.rename(path, renamed)
                self._waiting.append((due_ms, renamed))

    def remove_due(self, now_ms: int) -> int:
        """Remove the files that are due. Return the number of segments."""
        due = [what for due_ms, what in self._waiting if due_ms <= now_ms]
        self._waiting = [entry for entry in self._waiting if entry[0] > now_ms]
        for what in due:
            if isinstance(what, LogSegment):
                what.delete()
            else:
                self._fs.remove(what, missing_ok=True)
        return sum(isinstance(what, LogSegment) for what in due)

    def moved_to(self, directory: Path) -> None:
        """Take over the new path of the log's directory, which was renamed."""
        for number, (due_ms, what) in enumerate(self._waiting):
            if isinstance(what, LogSegment):
                what.moved_to(directory)
            else:
                self._waiting[number] = (due_ms, directory / what.name)

    def close_handlers(self) -> None:
        """Close the files. The next loading removes files that still wait."""
        for _, what in self._waiting:
            if isinstance(what, LogSegment):
                what.close_handlers()
        self._waiting = []
