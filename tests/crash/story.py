"""A log on a simulated disk, and its promise: the records that a crash at this moment must not lose.

A flushed record (below the recovery point) is promised until an operation starts to remove it. All appended batches are
remembered too, because the log must not serve any others.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from log_maker import BASE_TIME, CONTROL, TRANSACTIONAL, batch
from tidelog.kernel import OffsetMap
from tidelog.storage.cleaner.clean.clean_log import clean_log
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import AppendOrigin
from tidelog.testing import ManualClock, SimulatedDisk

ROOT = Path("/logs")
HOME = ROOT / "t-0"
CONFIG = LogConfig(segment_bytes=1500, segment_index_bytes=240, index_interval_bytes=150, file_delete_delay_ms=1000)
_FOREVER = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Stored:
    """A promised batch. ``forms`` are its possible contents while a cleaner runs."""

    first: int
    end: int
    data: bytes
    forms: frozenset[bytes] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class Promise:
    """The current promise. The log is in one of ``directories``, or in the last one if none exists yet."""

    directories: tuple[Path, ...]
    batches: tuple[Stored, ...]
    written: Mapping[int, frozenset[bytes]]
    """All appended batches, by base offset."""
    aborting: frozenset[bytes]
    """The batches of ``written`` that are abort markers."""
    config: LogConfig
    now_ms: int
    recovery_point: int
    log_start: int
    keep_from: int
    keep_below: int
    """Records outside are being removed: they may come back, without their leader epochs and time index."""
    clean: bool = False
    is_removing: bool = False
    """True if records were being removed, or have been removed."""
    is_gone: bool = False
    """The log is being deleted, so its files need not form a valid log."""
    is_gapless: bool = False
    """The log has all records from offset 0 up to its end: only the last ones may be lost."""


class Story:
    """The story of a log from its creation on."""

    def __init__(self, disk: SimulatedDisk, *, config: LogConfig = CONFIG, directory: Path = HOME) -> None:
        self.disk = disk
        self.config = config
        self.clock = ManualClock(BASE_TIME + 1_000_000)
        self.directories: tuple[Path, ...] = (directory,)
        self.epoch = 0
        self.batches: list[Stored] = []
        self.written: dict[int, set[bytes]] = {}
        self.aborting: set[bytes] = set()
        self.obsolete: set[int] = set()
        """Base offsets of the batches that a cleaner removes."""
        self.forms: dict[int, frozenset[bytes]] = {}
        """The new forms of the other batches, by base offset."""
        self.keep_from, self.keep_below = 0, _FOREVER
        """Records outside these offsets are being removed."""
        self.stale_recovery_point = 0
        """The checkpoint may still have this recovery point after the log's has moved below it."""
        self.stale_log_start: int | None = None
        self.is_clean = self.is_gone = self.is_gapless = False
        self.synced = 0
        """The offset below which everything is safe, used while no log is open."""
        self._log: PartitionLog | None = None
        self._sequences: dict[int, int] = {}

    @property
    def log(self) -> PartitionLog:
        assert self._log is not None
        return self._log

    def promise(self) -> Promise:
        log = self._log
        safe = self.synced if log is None else log.synced_offset
        start = 0 if log is None else log.log_start_offset
        return Promise(
            directories=self.directories,
            batches=tuple(
                replace(one, forms=self.forms.get(one.first, frozenset()))
                for one in self.batches
                if one.first >= self.keep_from and one.end <= min(safe, self.keep_below) and not self.is_gone
                if one.first not in self.obsolete
            ),
            written={offset: self.forms.get(offset, frozenset()) | found for offset, found in self.written.items()},
            aborting=frozenset(self.aborting),
            config=self.config,
            now_ms=self.clock.now,
            recovery_point=max(safe, self.stale_recovery_point),
            log_start=start if self.stale_log_start is None else self.stale_log_start,
            keep_from=self.keep_from,
            keep_below=self.keep_below,
            clean=self.is_clean,
            is_removing=self.keep_from > 0 or self.keep_below < _FOREVER,
            is_gone=self.is_gone,
            is_gapless=self.is_gapless,
        )

    # --- events of the log ---

    def open(self, *, clean: bool = True, **request: Any) -> None:
        self._log = PartitionLog.open(
            OpenRequest(
                fs=self.disk,
                directory=self.directories[-1],
                clock=self.clock,
                config=self.config,
                clean_shutdown=clean,
                **request,
            )
        )

    def killed(self, disk: SimulatedDisk) -> Story:
        """Continue the story on the disk that was found, without loading its log."""
        self.synced = self.stale_recovery_point = self.log.synced_offset
        self.disk, self._log = disk, None
        return self

    def append(
        self,
        records: int = 1,
        *,
        size: int = 40,
        producer: int = -1,
        transactional: bool = False,
        later_ms: int = 10,
        key: bytes = b"k",
        is_tombstone: bool = False,
    ) -> None:
        """Append one batch, which is acknowledged on return."""
        self.clock.now += later_ms
        values = [None if is_tombstone else b"%0*d" % (size, self.log.end_offset + number) for number in range(records)]
        fields: dict[str, Any] = {"timestamp": self.clock.now, "key": key}
        if producer >= 0:
            sequence = self._sequences.get(producer, 0)
            fields |= {"producer_id": producer, "sequence": sequence}
            self._sequences[producer] = sequence + records
        if transactional:
            fields["attributes"] = TRANSACTIONAL
        self._append(values, **fields)

    def end_transaction(self, producer: int, *, committed: bool) -> None:
        self._append(
            [struct.pack(">hi", 0, 0)],
            origin=AppendOrigin.COORDINATOR,
            aborting=not committed,
            key=struct.pack(">hh", 0, int(committed)),
            attributes=TRANSACTIONAL | CONTROL,
            producer_id=producer,
            sequence=-1,
            timestamp=self.clock.now,
        )

    def fill(self, batches: int, **fields: Any) -> None:
        for number in range(batches):
            self.append(1 + number % 3, **fields)

    def _append(
        self,
        values: Sequence[bytes | None],
        *,
        origin: AppendOrigin = AppendOrigin.CLIENT,
        aborting: bool = False,
        **fields: Any,
    ) -> None:
        first = self.log.end_offset
        made = batch(first, values, epoch=self.epoch, **fields)
        self.written.setdefault(first, set()).add(made)
        if aborting:
            self.aborting.add(made)
        sent = bytearray(bytes(8) + made[8:])  # the log assigns the offset
        result = self.log.append_as_leader(sent, leader_epoch=self.epoch, origin=origin)
        assert (result.first_offset, result.last_offset) == (first, first + len(values) - 1)
        self.batches.append(Stored(first, first + len(values), made))

    def new_epoch(self) -> None:
        self.epoch += 1
        self.log.assign_epoch(self.epoch, self.log.end_offset)

    def truncate_to(self, offset: int) -> None:
        self.keep_below, self.stale_recovery_point = offset, self.log.synced_offset
        self.log.truncate_to(offset)
        self._cut(offset)

    def truncate_fully(self, offset: int) -> None:
        self.keep_below, self.stale_recovery_point = 0, self.log.synced_offset
        self.stale_log_start = self.log.log_start_offset
        self.log.truncate_fully_and_start_at(offset)
        self.stale_log_start = None
        self._cut(0)

    def _cut(self, offset: int) -> None:
        """Note a truncation. A manager checkpoints the recovery point right after it, and so does this story."""
        self.batches = [one for one in self.batches if one.end <= offset]
        self.keep_below, self.stale_recovery_point = _FOREVER, 0

    def delete_records(self, offset: int) -> None:
        self.keep_from = offset
        self.log.maybe_increment_log_start_offset(offset)

    def apply_retention(self, keep_from: int, *, later_ms: int = 0, checkpointed: bool = True) -> None:
        """Keep offsets from ``keep_from`` on. If not ``checkpointed``, a crash finds the old log start."""
        self.clock.now += later_ms
        self.keep_from = keep_from
        self.stale_log_start = None if checkpointed else self.log.log_start_offset
        self.log.delete_old_segments()
        assert self.log.log_start_offset <= keep_from

    def remove_deleted(self) -> None:
        self.clock.now += self.config.file_delete_delay_ms
        self.log.remove_deleted()

    def clean(self, first_dirty: int = 0) -> int:
        """Clean all but the active segment, and return the next dirty offset."""
        result = clean_log(
            self.log,
            first_dirty=first_dirty,
            first_uncleanable=self.log.base_offsets[-1],
            offset_map=OffsetMap(4096, key=bytes(16)),
            clock=self.clock,
        )
        return result.next_dirty_offset

    def close(self) -> None:
        self.log.close()
        self.is_clean = True

    def rename(self, directory: Path) -> None:
        self.directories = (directory, *self.directories)
        self.log.rename(directory)
        self.directories = (directory,)

    def delete(self) -> None:
        self.is_gone = True
        self.log.delete()

    def with_config(self, **settings: Any) -> None:
        self.config = replace(self.config, **settings)
        if self._log is not None:
            self._log.update_config(self.config)
