"""The second half of a partition's snapshot: its log is recovered, its open transactions end, and it is closed.

The copied files are loaded as after an unclean shutdown, from the parts' recovery point on. So the engine writes the
indexes, leader epochs and producer state of the end. The markers are appended as a coordinator's. Closing syncs all
files and writes the producer snapshot. Producers do not expire here, because the snapshot is of an earlier time.
Thread rule: one caller for a partition; the new log directory is held.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from tidelog.model import CorruptRecordError, TopicPartition
from tidelog.record.build import build_end_transaction_batch
from tidelog.record.control import EndTransactionMarker
from tidelog.runtime.clock import FixedClock
from tidelog.storage.fs import FileSystem
from tidelog.storage.log.partition_log import OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.manager.snapshot.open_transactions import (
    KnownId,
    OpenTransactionPolicy,
    SettledTransaction,
    TransactionEnd,
    choose_marker,
    fencing_batch,
    read_ids,
)
from tidelog.storage.manager.snapshot.partition_files import PartitionFiles
from tidelog.storage.producer import AppendOrigin

_NEVER_MS = 2**31 - 1
_READ_BYTES = 4 * 1024 * 1024
_FIRST_EPOCH = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotPartition:
    """A finished partition of a snapshot. Sizes are in bytes, and ``linked`` and ``copied`` count segments."""

    partition: TopicPartition
    copy: PartitionFiles
    log_start: int
    log_end: int
    """The end, and the markers behind it."""
    starts_inside_segment: bool
    transactions: tuple[SettledTransaction, ...]


class CopiedLog:
    """The log of a copied partition, open."""

    def __init__(self, fs: FileSystem, copied: PartitionFiles, config: LogConfig, *, moment_ms: int) -> None:
        """Recover the log. Raise CorruptRecordError if it does not end at the end, because a batch is damaged."""
        self.copied = copied
        self._moment_ms = moment_ms
        parts = copied.parts
        config = replace(config, producer_id_expiration_ms=_NEVER_MS, file_delete_delay_ms=0, preallocate=False)
        request = OpenRequest(
            fs=fs,
            directory=copied.directory,
            clock=FixedClock(moment_ms),
            config=config,
            clean_shutdown=False,
            recovery_point=parts.recovery_point,
            log_start_offset=parts.log_start,
            syncs_name=False,
        )
        self.log = PartitionLog.open(request)
        if self.log.end_offset != parts.end.offset:
            end = self.log.end_offset
            self.log.close_handlers()
            raise CorruptRecordError(
                f"a batch below the end at offset {parts.end.offset} is damaged, so its copy ends at {end}: run"
                " tidelog verify, and tidelog recover if it finds damage",
                path=copied.source,
                offset=end,
            )
        if self.log.epochs.latest is None:
            self._restore_epochs()

    def transactional_ids(self) -> dict[str, KnownId]:
        """Return the ids in a log of ``__transaction_state``."""
        end = self.log.end_offset
        batches = self.log.read_through(self.log.log_start_offset, end, _READ_BYTES)
        return read_ids(((data, table, 0) for data, table in batches), end)

    def fence(self, ids: Mapping[str, KnownId]) -> None:
        """Append the records of ids whose transactions were aborted, in a log of ``__transaction_state``."""
        batch = fencing_batch(ids.values(), self._moment_ms)
        if batch is not None:
            self.log.append_as_leader(batch, leader_epoch=self._leader_epoch, origin=AppendOrigin.COORDINATOR)

    def finish(self, producers: Mapping[int, KnownId], policy: OpenTransactionPolicy) -> SnapshotPartition:
        """End the open transactions, and close the log durably. ``producers`` are the coordinators' ids."""
        open_ = sorted(
            (entry.transaction_first_offset, entry.producer_id)
            for entry in self.log.producers.values()
            if entry.transaction_first_offset is not None
        )
        ended = tuple(
            self._end(producer_id, first_offset, producers.get(producer_id), policy)
            for first_offset, producer_id in open_
        )
        parts = self.copied.parts
        log_start, log_end = self.log.log_start_offset, self.log.end_offset
        starts_inside = self.log.starts_inside_segment
        self.log.close()
        return SnapshotPartition(
            partition=parts.partition,
            copy=self.copied,
            log_start=log_start,
            log_end=log_end,
            starts_inside_segment=starts_inside,
            transactions=ended,
        )

    def close(self) -> None:
        """Close the files of a log that is not finished. The call is idempotent."""
        self.log.close_handlers()

    def _restore_epochs(self) -> None:
        """Take the leader epochs from the batches, if all entries of the source began above the end.

        DeleteRecords moves the first entry up at once. If the log start is lost in a crash, the records below the entry
        are back without one.
        """
        for _, table in self.log.read_through(self.log.log_start_offset, self.log.end_offset, _READ_BYTES):
            if table.summary.leader_epoch < 0:
                return  # message formats v0 and v1 have no epochs
            changes = np.flatnonzero(np.diff(table.leader_epoch, prepend=-1))
            for epoch, offset in zip(table.leader_epoch[changes], table.base_offset[changes], strict=True):
                self.log.assign_epoch(int(epoch), int(offset))

    @property
    def _leader_epoch(self) -> int:
        latest = self.log.epochs.latest
        return _FIRST_EPOCH if latest is None else latest

    def _end(
        self, producer_id: int, first_offset: int, known: KnownId | None, policy: OpenTransactionPolicy
    ) -> SettledTransaction:
        entry = self.log.producers[producer_id]
        producer_epoch, end = entry.producer_epoch, TransactionEnd.KEPT
        if policy is OpenTransactionPolicy.ABORT:
            choice = choose_marker(entry, known)
            marker = EndTransactionMarker(
                committed=choice.committed, coordinator_epoch=max(_FIRST_EPOCH, entry.coordinator_epoch)
            )
            batch = build_end_transaction_batch(
                marker,
                base_offset=0,
                timestamp=self._moment_ms,
                producer_id=producer_id,
                producer_epoch=choice.producer_epoch,
            )
            self.log.append_as_leader(batch, leader_epoch=self._leader_epoch, origin=AppendOrigin.COORDINATOR)
            end = TransactionEnd.COMMITTED if choice.committed else TransactionEnd.ABORTED
        return SettledTransaction(
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            first_offset=first_offset,
            end=end,
            transactional_id=None if known is None else known.name,
        )
