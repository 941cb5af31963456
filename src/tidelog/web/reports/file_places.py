"""The page of a file in a log directory, and of a byte in it, by the file's path.

Findings and differences name files by their paths. Only files of the given log directories have a page. A link to a
segment is made only if the segment is still there. Thread rule: any thread.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidelog.storage.segment.file_names import FileKind, FileState, SegmentFileName
from tidelog.web import urls
from tidelog.web.sources import LogDir, Sources


@dataclass(frozen=True, slots=True, kw_only=True)
class FilePlace:
    """``log`` is the name of the partition's directory; empty for a file of the log directory itself."""

    log_dir: LogDir
    log: str
    name: str
    segment: SegmentFileName | None = None
    """The parsed name of a segment's live file whose ``.log`` exists."""

    @classmethod
    def of(cls, sources: Sources, path: Path) -> Self | None:
        """Return the place of a file, or None if no given log directory has it."""
        for one in sources.log_dirs:
            if path.parent == one.path:
                is_log = one.fs.exists(path) and one.fs.stat(path).is_dir
                return cls(log_dir=one, log=path.name if is_log else "", name="" if is_log else path.name)
            if path.parent.parent == one.path:
                parsed = SegmentFileName.parse(path.name)
                is_live = parsed is not None and parsed.state is FileState.LIVE and parsed.kind is not FileKind.SNAPSHOT
                if parsed is None or not is_live or not one.fs.exists(_log_of(path, parsed)):
                    parsed = None
                return cls(log_dir=one, log=path.parent.name, name=path.name, segment=parsed)
        return None

    @property
    def url(self) -> str:
        """The page that shows the file: its segment, or else its log or log directory."""
        if not self.log:
            return urls.log_dir_url(self.log_dir.key)
        if self.segment is not None:
            return urls.segment_url(self.log_dir.key, self.log, self.segment.offset)
        if self.name.endswith(FileKind.SNAPSHOT):
            return urls.log_part_url(self.log_dir.key, self.log, "producers")
        return urls.log_url(self.log_dir.key, self.log)

    def batch_url(self, position: int | None) -> str | None:
        """Return the page of the batch at a position of a ``.log``, or None if the file is another one."""
        if position is None or self.segment is None or self.segment.kind is not FileKind.LOG:
            return None
        return urls.batch_url(self.log_dir.key, self.log, self.segment.offset, position)


def _log_of(path: Path, parsed: SegmentFileName) -> Path:
    return parsed._replace(kind=FileKind.LOG).in_directory(path.parent)
