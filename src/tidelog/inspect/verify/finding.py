"""What a check found: one sentence, where it is, how bad it is."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import TidelogError
from tidelog.storage.fs import path_of


class Severity(enum.StrEnum):
    """``ERROR``: the file contradicts itself or the log. ``WARNING``: odd, Kafka lives with it. ``NOTE``: normal."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    path: Path
    message: str
    severity: Severity = Severity.ERROR
    position: int | None = None
    """Byte in the file."""
    offset: int | None = None
    """Log offset."""
    next_good_position: int | None = None
    """After damage in a ``.log``: where the next whole batch with a right CRC begins, if one was found."""
    next_good_offset: int | None = None

    @classmethod
    def of(cls, error: TidelogError, path: Path, severity: Severity = Severity.ERROR) -> Finding:
        """The finding an error makes; ``path`` where the error names no file."""
        return cls(
            path=path_of(error.path) if error.path is not None else path,
            message=error.message,
            severity=severity,
            position=error.position,
            offset=error.offset,
        )
