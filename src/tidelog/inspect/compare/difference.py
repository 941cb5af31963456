"""The first difference between two replicas: the batch in both files, and the header fields that differ.

==========  ========================================================================================
kind        meaning
==========  ========================================================================================
HEADER      the batches' headers differ; ``fields`` has the columns of the batch table that differ
RECORDS     the headers are equal, and bytes after them are not; in a compacted log, a record differs
MISSING     one replica has a batch, or in a compacted log a record, that the other must have and lacks
UNREADABLE  bytes of one replica are no valid batch
==========  ========================================================================================
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

from tidelog.kernel import BatchRow


class DifferenceKind(enum.StrEnum):
    """See the module's table."""

    HEADER = "header"
    RECORDS = "records"
    MISSING = "missing"
    UNREADABLE = "unreadable"


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchPlace:
    """A batch in a segment file. ``row.position`` is its position in the file."""

    path: Path
    row: BatchRow


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    """The difference at ``offset``. A side is None if it has no batch there, or none that can be read."""

    kind: DifferenceKind
    offset: int
    fields: tuple[str, ...] = ()
    left: BatchPlace | None = None
    right: BatchPlace | None = None
    byte: int | None = None
    """The first byte that differs, counted from the start of the batch, if the kind is RECORDS."""
    reason: str | None = None
    """The error's sentence if the kind is UNREADABLE."""
