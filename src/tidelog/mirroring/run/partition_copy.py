"""A partition of the source and its copy: the follower's rules, the bound of this run, and counts.

===========  =========================================================================================================
state        meaning
===========  =========================================================================================================
waiting      no bound is set: the partition is not fetched yet
copying      records below the bound are missing
complete     all records below the bound are here; with a bound of None it never is
failed       nothing helps but a new leader epoch; ``error`` has the reason
===========  =========================================================================================================

A bound is an offset of the source's high watermark, so it lies between batches. Batches of a coordinator's topic from
the bound on are left out, because they may belong to data that is not here yet. Other topics may go beyond their bound.

A copy with records is complete only after the source has confirmed its end. The source compares the epoch of the
copy's last batch with its own, so another history is seen even if both logs end at the same offset.

A copy that was recovered after an unclean shutdown may have lost its first records, if the disk lost synced data. Then
the copy begins above the source's log start. The copy's own retention has the same result, so this is no error.

Compaction can leave a gap at the bound. Then the source has no batch below the bound any more, and the copy is complete
although its log ends before. Thread rule: the event loop only.
"""

from __future__ import annotations

import uuid
from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.kernel import scan_batches
from tidelog.mirroring.target.transaction_states import size_before_open
from tidelog.model import TidelogError, TopicPartition
from tidelog.replication.follower import Follower, Phase
from tidelog.replication.follower_commands import Commands, Fail
from tidelog.replication.follower_events import FetchedPartition, FetchPosition
from tidelog.storage.log.partition_log import PartitionLog

if TYPE_CHECKING:
    from typing_extensions import Buffer

WAITING = -1
"""The bound of a partition that is not fetched yet."""


class PartitionCopy:
    def __init__(self, partition: TopicPartition, log: PartitionLog, *, is_exact: bool, backoff_ms: int) -> None:
        """``is_exact`` leaves out batches from the bound on."""
        self.partition = partition
        self.topic_id: uuid.UUID | None = None
        self.log = log
        self.follower = Follower(log, backoff_ms=backoff_ms)
        self.bound: int | None = WAITING
        """The first offset that this run does not need, or None for no end."""
        self.source_end: int | None = None
        """The source's high watermark, as last seen."""
        self.error: TidelogError | None = None
        self.copied_bytes = 0
        self.begun_at = log.end_offset
        """The log end at the start of the run."""
        self.removed_records = 0
        """The records that truncations removed."""
        self.missing_first: range | None = None
        """The source's first offsets, if a recovered copy begins after them."""
        self.held_ids: frozenset[int] = frozenset()
        """Producer ids whose transactions are open in the copy: a state that completes one is not copied yet."""
        self._is_exact = is_exact
        self._is_unchecked = bool(log.loaded.recovered)
        """True until the start of a recovered copy is compared with the source's."""
        self._is_confirmed = log.end_offset == 0
        """True if the source has confirmed in this run that it has the end of the copy, in the same epoch."""
        self._gap_end = WAITING
        """The offset up to which the source has no records after the log end."""

    @property
    def end_offset(self) -> int:
        return self.log.end_offset

    @property
    def is_complete(self) -> bool:
        return self.bound is not None and self.has_reached(self.bound)

    def has_reached(self, end: int) -> bool:
        """Return True if the copy has all records below ``end``, or all below a smaller bound that was set since."""
        if self.bound is not None and self.bound < end:
            end = self.bound
        return self._is_confirmed and (self.end_offset >= end or self._gap_end >= end)

    def need(self, end: int) -> None:
        """Copy up to ``end`` at least."""
        if self.bound is not None:
            self.bound = max(self.bound, end)

    @property
    def has_failed(self) -> bool:
        return self.follower.phase is Phase.FAILED

    @property
    def lag(self) -> int:
        """The records up to the bound, or up to the source's end without a bound, that are missing here."""
        end = self.source_end if self.bound is None else self.bound
        return 0 if end is None or self.is_complete else max(0, end - self.end_offset)

    @property
    def is_behind(self) -> bool:
        """True if the source had records after the log end, as last seen."""
        return self.source_end is not None and self.end_offset < self.source_end

    @property
    def is_at_end(self) -> bool:
        """True if no record up to the bound, or to the source's end without a bound, is missing."""
        return self.error is None and (self.is_complete if self.bound is not None else self.lag == 0)

    def wanted_position(self, now_ms: int) -> FetchPosition | None:
        """Return the position of the next fetch, or None if this partition needs none now."""
        if self.is_complete:
            return None
        return self.follower.poll(now_ms)

    @property
    def ready_at_ms(self) -> int | None:
        """The end of a back-off, or None."""
        is_delayed = self.follower.phase is Phase.DELAYED and not self.is_complete
        return self.follower.ready_at_ms if is_delayed else None

    def received(
        self, asked: FetchPosition, fetched: FetchedPartition | None, *, is_empty: bool, now_ms: int
    ) -> Commands:
        """Note the source's part of a response, and return the follower's commands. ``is_empty`` is as in
        ``note_response``."""
        if fetched is None:
            self.note_silence(asked, is_empty=is_empty)
            return ()
        self.note_response(asked, fetched, is_empty=is_empty)
        return self.follower.fetched(asked, self.bounded(fetched), now_ms)

    def bounded(self, fetched: FetchedPartition) -> FetchedPartition:
        """Return the response without the batches that are not wanted."""
        if not self._is_exact or self.bound is None or fetched.records is None:
            return fetched
        records = _below(fetched.records, self.bound)
        if self.held_ids:
            size = size_before_open(records, self.held_ids.__contains__)
            if size < memoryview(records).nbytes:
                self.bound = _first_offset(records, size)
                records = memoryview(records)[:size]
        return replace(fetched, records=records)

    def note_response(self, asked: FetchPosition, fetched: FetchedPartition, *, is_empty: bool) -> None:
        """Note the source's start and end. ``is_empty``: the complete response has no records, so it left none out."""
        if fetched.error_code:
            return
        self.source_end = fetched.high_watermark
        if self._is_unchecked and fetched.log_start_offset >= 0:
            self._is_unchecked = False
            self.missing_first = range(fetched.log_start_offset, self.log.log_start_offset) or None
        if fetched.diverging_epoch is not None:
            return
        self._is_confirmed |= asked.offset <= fetched.high_watermark
        if is_empty and asked.offset == self.end_offset:
            self._gap_end = fetched.high_watermark

    def note_silence(self, asked: FetchPosition, *, is_empty: bool) -> None:
        """Note that a response of a session has no news of this partition. ``is_empty`` is as in ``note_response``.

        An error or a diverging epoch would be news. So the source confirms the position, for example after a truncation
        to its end.
        """
        self._is_confirmed |= self.source_end is not None and asked.offset <= self.source_end
        if is_empty and self.source_end is not None and asked.offset == self.end_offset:
            self._gap_end = max(self._gap_end, self.source_end)

    def note_failure(self, failure: Fail) -> None:
        if self.error is None:
            self.error = TidelogError(f"{self.partition}: {failure.message}")


def _first_offset(records: Buffer, position: int) -> int:
    return int(scan_batches(memoryview(records)[position:], verify_crc=False).base_offset[0])


def _below(records: Buffer, bound: int) -> Buffer:
    """Return the batches that begin below ``bound``."""
    table = scan_batches(records, verify_crc=False)
    for number, base_offset in enumerate(table.base_offset.tolist()):
        if base_offset >= bound:
            return memoryview(records)[: int(table.position[number])]
    return records
