"""Segments that are no longer part of the log: renamed ``.deleted`` at once, removed after ``file.delete.delay.ms``.

Until then whoever reads one goes on reading it. Owns the queue of what is due; the clock is the caller's, and so is the
thread: ``remove_due`` is called by whoever does the house-keeping. Snapshots go the same way. A crash leaves
``.deleted`` files, which the next loading removes.

Called by: LogState. Thread rule: under the partition's lock. Source: Kafka's ``LocalLog.deleteSegmentFiles``.
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
        """Segments and snapshots that wait."""
        return len(self._waiting)

    @property
    def next_due_ms(self) -> int | None:
        return min((due_ms for due_ms, _ in self._waiting), default=None)

    def add(self, segments: Iterable[LogSegment], due_ms: int) -> None:
        """Rename the files of each; they may go from ``due_ms`` on."""
        for segment in segments:
            segment.change_state(FileState.DELETED)
            self._waiting.append((due_ms, segment))

    def add_renamed(self, segments: Iterable[LogSegment], due_ms: int) -> None:
        """Whose files have that name already."""
        for segment in segments:
            segment.renamed(FileState.DELETED)
            self._waiting.append((due_ms, segment))

    def add_files(self, paths: Iterable[Path], due_ms: int) -> None:
        """Files that stand alone (snapshots); a missing one is none."""
        for path in paths:
            if self._fs.exists(path):
                renamed = path.with_name(path.name + FileState.DELETED)
                self._fs.rename(path, renamed)
                self._waiting.append((due_ms, renamed))

    def remove_due(self, now_ms: int) -> int:
        """Remove what is due; how many segments that was."""
        due = [what for due_ms, what in self._waiting if due_ms <= now_ms]
        self._waiting = [entry for entry in self._waiting if entry[0] > now_ms]
        for what in due:
            if isinstance(what, LogSegment):
                what.delete()
            else:
                self._fs.remove(what, missing_ok=True)
        return sum(isinstance(what, LogSegment) for what in due)

    def moved_to(self, directory: Path) -> None:
        """The log's directory has another name."""
        for number, (due_ms, what) in enumerate(self._waiting):
            if isinstance(what, LogSegment):
                what.moved_to(directory)
            else:
                self._waiting[number] = (due_ms, directory / what.name)

    def close_handlers(self) -> None:
        """Let go of the files; what waits is removed by the next loading."""
        for _, what in self._waiting:
            if isinstance(what, LogSegment):
                what.close_handlers()
        self._waiting = []
