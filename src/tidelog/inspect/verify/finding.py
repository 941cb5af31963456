"""A finding of a check: one sentence, its place and its severity."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from tidelog.model import TidelogError
from tidelog.storage.fs import path_of


class Severity(enum.StrEnum):
    """``ERROR`` contradicts itself or the log. ``WARNING`` is odd, but Kafka tolerates it. ``NOTE`` is normal."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    path: Path
    message: str
    severity: Severity = Severity.ERROR
    position: int | None = None
    """The byte position in the file."""
    end_position: int | None = None
    """The position after the bytes that the finding is about, if it is about a range of a ``.log``."""
    offset: int | None = None
    """The log offset."""
    next_good_position: int | None = None
    """The position of the next complete batch with a right CRC after damage in a ``.log``, if one was found."""
    next_good_offset: int | None = None

    @classmethod
    def of(cls, error: TidelogError, path: Path, severity: Severity = Severity.ERROR) -> Finding:
        """Convert an error to a finding. ``path`` applies if the error names no file."""
        return cls(
            path=path_of(error.path) if error.path is not None else path,
            message=error.message,
            severity=severity,
            position=error.position,
            offset=error.offset,
        )
