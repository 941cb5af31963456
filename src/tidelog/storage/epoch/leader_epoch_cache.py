"""The leader epochs of one log in memory, each with its start offset. The code is pure.

Epochs and start offsets ascend strictly. The entries are one immutable tuple that a change replaces, so other threads
read without a lock. Changes need the partition's lock. A changing call returns True if the entries changed. Its caller
then writes the checkpoint (see ``leader_epoch_file``).

The epochs also show where two replicas' logs diverge. A follower fetches with the epoch of its last batch, and the
leader compares:

==================================================  ==========================================================
the leader's end offset of that epoch               the leader's response
==================================================  ==========================================================
unknown, or a fetch offset below the log start      OffsetOutOfRangeError: the follower starts over
of a smaller epoch, or below the fetch offset       diverging: that epoch and its end offset
else                                                no divergence: the follower's log is a valid prefix
==================================================  ==========================================================

The follower truncates and fetches again until both logs share its latest epoch:

==================================================  ==========================================================
the follower's largest epoch not above the          it truncates to
leader's
==================================================  ==========================================================
none is known                                       the leader's end offset, complete
the same                                            the smaller of both end offsets of that epoch, complete
a smaller one                                       its own end offset of that epoch, not complete
==================================================  ==========================================================

It never truncates to an offset above its own log end.

Source: Kafka's ``LeaderEpochFileCache``, ``Partition.readRecords`` and
``AbstractFetcherThread.getOffsetTruncationState`` (KIP-101, KIP-279, KIP-595).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from tidelog.model import OffsetOutOfRangeError


class EpochEntry(NamedTuple):
    """A leader epoch and the first offset written in it."""

    epoch: int
    start_offset: int


class EpochEndOffset(NamedTuple):
    """The largest known epoch at or below the requested one, and the start of the next epoch (exclusive end)."""

    epoch: int
    end_offset: int


_EPOCH = attrgetter("epoch")
_START_OFFSET = attrgetter("start_offset")


def with_records(entries: tuple[EpochEntry, ...], log_end: int) -> tuple[EpochEntry, ...]:
    """Return the entries without the last, if that begins at the log end: it has no records yet."""
    return entries[:-1] if entries and entries[-1].start_offset == log_end else entries


class LeaderEpochCache:
    def __init__(self, entries: Iterable[EpochEntry] = ()) -> None:
        """The entries are assigned one after the other, so a later entry removes contradicting earlier entries."""
        self.entries: tuple[EpochEntry, ...] = ()
        """The epochs in ascending order. Only this class replaces the tuple."""
        for entry in entries:
            self.assign(*entry)

    # --- reading ---

    @property
    def latest_entry(self) -> EpochEntry | None:
        return self.entries[-1] if self.entries else None

    @property
    def earliest_entry(self) -> EpochEntry | None:
        return self.entries[0] if self.entries else None

    @property
    def latest_epoch(self) -> int | None:
        return self.entries[-1].epoch if self.entries else None

    def entry(self, epoch: int) -> EpochEntry | None:
        entries = self.entries
        at = bisect_left(entries, epoch, key=_EPOCH)
        return entries[at] if at < len(entries) and entries[at].epoch == epoch else None

    def previous_entry(self, epoch: int) -> EpochEntry | None:
        """Return the last entry below ``epoch``."""
        entries = self.entries
        at = bisect_left(entries, epoch, key=_EPOCH)
        return entries[at - 1] if at else None

    def previous_epoch(self, epoch: int) -> int | None:
        entry = self.previous_entry(epoch)
        return None if entry is None else entry.epoch

    def next_epoch(self, epoch: int) -> int | None:
        entries = self.entries
        at = bisect_right(entries, epoch, key=_EPOCH)
        return entries[at].epoch if at < len(entries) else None

    def epoch_for_offset(self, offset: int) -> int | None:
        """Return the epoch in which the record at ``offset`` was written, or None below the first entry."""
        entries = self.entries
        at = bisect_right(entries, offset, key=_START_OFFSET)
        return entries[at - 1].epoch if at else None

    def end_offset_for(self, epoch: int, log_end_offset: int) -> EpochEndOffset | None:
        """Return the end offset of ``epoch`` in this log, or None if it is unknown or negative (undefined).

        ======================================  ==================================================
        requested epoch                         result
        ======================================  ==================================================
        the latest                              itself, the log end
        above the latest                        None
        below the earliest                      itself, the start of the earliest
        else                                    the largest known one not above it, the next start
        ======================================  ==================================================
        """
        entries = self.entries
        if epoch < 0 or not entries or epoch > entries[-1].epoch:
            return None
        if epoch == entries[-1].epoch:
            return EpochEndOffset(epoch, log_end_offset)
        at = bisect_right(entries, epoch, key=_EPOCH)
        return EpochEndOffset(entries[at - 1].epoch if at else epoch, entries[at].start_offset)

    # --- changing ---

    def assign(self, epoch: int, start_offset: int) -> bool:
        """Record that ``epoch`` began at ``start_offset``. Drop contradicting entries. Return True on a change."""
        if epoch < 0 or start_offset < 0:
            raise ValueError(f"no leader epoch: epoch {epoch} at offset {start_offset}")
        entries = self.entries
        if entries and epoch == entries[-1].epoch and start_offset >= entries[-1].start_offset:
            return False
        keep = len(entries)
        while keep and (entries[keep - 1].epoch >= epoch or entries[keep - 1].start_offset >= start_offset):
            keep -= 1
        self.entries = (*entries[:keep], EpochEntry(epoch, start_offset))
        return True

    def truncate_from_end(self, end_offset: int) -> bool:
        """Drop the epochs that begin at or above ``end_offset``. Return True on a change."""
        entries = self.entries
        if end_offset < 0:
            return False
        self.entries = entries[: bisect_left(entries, end_offset, key=_START_OFFSET)]
        return len(self.entries) < len(entries)

    def truncate_from_start(self, start_offset: int) -> bool:
        """Move the start to ``start_offset``: the epoch of that offset begins there, and earlier epochs are dropped.

        Return True on a change.
        """
        entries = self.entries
        at = bisect_right(entries, start_offset, key=_START_OFFSET)
        if at == 0:
            return False
        self.entries = (EpochEntry(entries[at - 1].epoch, start_offset), *entries[at:])
        return self.entries != entries

    def clear(self) -> bool:
        """Drop all entries, because a log of message format v0 or v1 has no epochs. Return True on a change."""
        had = bool(self.entries)
        self.entries = ()
        return had


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowerTruncation:
    offset: int
    is_complete: bool
    """False if the follower has to ask for an older epoch."""


def diverging_epoch(
    epochs: LeaderEpochCache, *, log_start: int, log_end: int, last_fetched_epoch: int, fetch_offset: int
) -> EpochEndOffset | None:
    """Return, as the leader, the diverging epoch and its end, or None. Raise OffsetOutOfRangeError as in the table."""
    answer = epochs.end_offset_for(last_fetched_epoch, log_end)
    if answer is None:
        raise OffsetOutOfRangeError(
            f"the end of the last fetched epoch {last_fetched_epoch} is not known", offset=fetch_offset
        )
    if fetch_offset < log_start:
        raise OffsetOutOfRangeError(f"the fetch offset is below the log start {log_start}", offset=fetch_offset)
    if answer.epoch < last_fetched_epoch or answer.end_offset < fetch_offset:
        return answer
    return None


def follower_truncation(epochs: LeaderEpochCache, log_end: int, leader: EpochEndOffset) -> FollowerTruncation:
    """Return the truncation of a follower that received the diverging epoch ``leader`` from its leader."""
    own = epochs.end_offset_for(leader.epoch, log_end)
    if own is None:
        return FollowerTruncation(offset=min(leader.end_offset, log_end), is_complete=True)
    if own.epoch != leader.epoch:
        return FollowerTruncation(offset=min(own.end_offset, log_end), is_complete=False)
    return FollowerTruncation(offset=min(own.end_offset, leader.end_offset, log_end), is_complete=True)
