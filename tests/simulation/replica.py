"""A broker's replica of one partition: a real log on a simulated disk, and the prints of its records.

Every change goes through this class, which applies it to the log and to ``prints``. The log has the last word about its
offsets: they are compared after each change. After a crash the prints are read from the loaded log.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path

from simulation.batches import EPOCH_SHIFT, NO_RECORD, batch_bytes, epoch_of, prints_of, read_prints
from tidelog.model import Isolation, LogOffsetMetadata
from tidelog.storage.log.partition_log import LogReadRequest, PartitionLog

_EVERYTHING = 1 << 30


class Replica:
    __slots__ = (
        "_checked_from",
        "doubtful_from",
        "log",
        "node_id",
        "partition",
        "prints",
        "runs",
        "touched",
        "written",
    )

    def __init__(self, node_id: int, partition: int, log: PartitionLog, written: set[int], touched: set[int]) -> None:
        """``written`` takes the prints of all records that are appended, ``touched`` the partition at each change."""
        self.node_id = node_id
        self.partition = partition
        self.log = log
        self.written = written
        self.touched = touched
        self.prints: list[int] = []
        """The print of each offset from 0 on."""
        self.runs: list[tuple[int, int]] = []
        """The epochs of the records that were appended, with their start offsets."""
        self.doubtful_from: int | None = None
        """Records from this offset on may differ from the leader's, because an unclean election lost others."""
        self._checked_from: int | None = None
        """The offset from which on the epochs agreed when they were compared last; None after a change."""
        self._read_all()

    @property
    def directory(self) -> Path:
        return self.log.directory

    @property
    def end(self) -> int:
        return len(self.prints)

    @property
    def start(self) -> int:
        return self.log.log_start_offset

    @property
    def log_end(self) -> LogOffsetMetadata:
        return self.log.log_end

    @property
    def min_insync_replicas(self) -> int:
        return self.log.config.min_insync_replicas

    @property
    def high_watermark(self) -> int:
        return self.log.high_watermark

    # --- reading ---

    def read(self, offset: int, max_bytes: int, *, up_to_high_watermark: bool = False) -> bytes:
        """Read batches. Raise OffsetOutOfRangeError if the log does not hold ``offset``."""
        isolation = Isolation.READ_UNCOMMITTED if up_to_high_watermark else Isolation.LOG_END
        return self.log.read(LogReadRequest(start_offset=offset, max_bytes=max_bytes, isolation=isolation)).data()

    # --- changes ---

    def append_as_leader(self, number: int, records: int, epoch: int) -> int:
        """Append batch ``number`` and return its base offset."""
        self._touch()
        result = self.log.append_as_leader(bytearray(batch_bytes(number, records)), leader_epoch=epoch)
        first = len(self.prints)
        assert result.first_offset == first, result
        self._add(first, prints_of(number, records, epoch))
        return first

    def append_as_follower(self, data: bytes, epoch: int) -> None:
        self._touch()
        self.log.append_as_follower(data, epoch)
        for base_offset, prints in read_prints(data):
            if epoch_of(prints[0]) > epoch:
                break
            self._add(base_offset, prints)
        self._require_agreement()

    def truncate_to(self, offset: int) -> None:
        self._touch()
        self.log.truncate_to(offset)
        self._cut(self.log.end_offset)

    def start_over_at(self, offset: int) -> None:
        """Remove all records; the log continues at ``offset``."""
        self._touch()
        self.log.truncate_fully_and_start_at(offset)
        self.prints = [NO_RECORD] * offset
        self.runs = []
        if self.doubtful_from is not None:
            self.doubtful_from = offset
        self._require_agreement()

    def begin_epoch(self, epoch: int) -> None:
        self._touch()
        self.log.begin_epoch(epoch)

    def update_high_watermark(self, offset: int) -> None:
        """Set a follower's high watermark."""
        self._touch()
        self.log.update_high_watermark(offset)

    def advance_high_watermark(self, offset: int) -> bool:
        """Move a leader's high watermark forward, if it is below ``offset``."""
        self._touch()
        return self.log.maybe_increment_high_watermark(LogOffsetMetadata(offset)) is not None

    def delete_below(self, offset: int) -> bool:
        self._touch()
        return self.log.maybe_increment_log_start_offset(offset)

    # --- comparisons ---

    def epoch_problem(self, start: int) -> str | None:
        """Return how the epoch cache contradicts the records from ``start`` on, or None.

        An entry at the log end is valid: a leader's epoch that has no records yet.
        """
        if start == self._checked_from:
            return None
        self._checked_from, start, end = start, max(start, self.start), self.end
        entries = _held(self.log.epochs.entries, start, end)
        held = _held(self.runs, start, end)
        if entries != held:
            return f"its epoch cache has {_shown(entries)}, but its records have {_shown(held)}"
        return None

    def check_bytes(self) -> str | None:
        """Read the whole log and compare it with the prints. Return the difference, or None."""
        found = self._stored()
        if found != self.prints[self.start :]:
            return f"its files hold {found}, but {self.prints[self.start :]} were appended from offset {self.start} on"
        return None

    # --- inside ---

    def _touch(self) -> None:
        self.touched.add(self.partition)
        self._checked_from = None

    def _add(self, first: int, prints: list[int]) -> None:
        self._fill(self.prints, first)
        self.prints.extend(prints)
        self.written.update(prints)
        epoch = prints[0] >> EPOCH_SHIFT
        if not self.runs or self.runs[-1][0] != epoch:
            self.runs.append((epoch, first))

    def _cut(self, end: int) -> None:
        del self.prints[end:]
        while self.runs and self.runs[-1][1] >= end:
            self.runs.pop()
        if self.doubtful_from is not None:
            self.doubtful_from = min(self.doubtful_from, end)
        self._require_agreement()

    def _read_all(self) -> None:
        self.prints, self.runs = [NO_RECORD] * self.start, []
        for base_offset, prints in self._batches():
            # A batch that the log start splits is stored whole.
            self._add(max(base_offset, self.start), prints[max(0, self.start - base_offset) :])
        self._fill(self.prints, self._active_base)
        self._require_agreement()

    def _stored(self) -> list[int]:
        """Read the print of each offset from the log start on."""
        found: list[int] = []
        for base_offset, prints in self._batches():
            self._fill(found, base_offset - self.start)
            found += prints[max(0, self.start - base_offset) :]
        self._fill(found, self._active_base - self.start)
        return found

    @property
    def _active_base(self) -> int:
        """The base offset of the active segment. A log that started over has no records below it.

        A power loss in between may bring an old segment back: then the log start lies below this offset.
        """
        return self.log.base_offsets[-1]

    @staticmethod
    def _fill(prints: list[int], end: int) -> None:
        """Add the offsets below ``end`` that have no record."""
        prints.extend([NO_RECORD] * (end - len(prints)))

    def _batches(self) -> Iterator[tuple[int, list[int]]]:
        for data, _ in self.log.read_through(self.start, self.log.end_offset, _EVERYTHING):
            yield from read_prints(data)

    def _require_agreement(self) -> None:
        if self.log.end_offset != len(self.prints):
            raise AssertionError(
                f"{self.directory} ends at {self.log.end_offset}, but the appended records end at {len(self.prints)}"
            )


def _held(entries: Sequence[tuple[int, int]], start: int, end: int) -> list[tuple[int, int]]:
    """Return the epochs with records in [start, end), with the first of these records."""
    raised = [(epoch, max(first, start)) for epoch, first in entries]
    return [entry for entry, after in pairwise([*raised, (0, end)]) if after[1] > entry[1]]


def _shown(entries: list[tuple[int, int]]) -> str:
    return ", ".join(f"epoch {epoch} from {start}" for epoch, start in entries) or "no epoch"
