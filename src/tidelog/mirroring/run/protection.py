"""The decision whether a mirror may remove records that the source does not have. Pure.

==============================================  =============  ======================================================
the follower's rules want to                    may it         reason
==============================================  =============  ======================================================
truncate to the end of an epoch, above the      yes            the source proves by its epochs where the logs part: an
copy's log start                                               unclean election
truncate to the end of an epoch, at the copy's  if accepted    nothing of the copy is left: the source has lost the
log start                                                      partition's data
truncate to the source's log end                if accepted    the source has less data, and no epoch proves why
truncate to the high watermark                  if accepted    the same
start over at the source's log start            yes            the source has deleted all records of the copy, by
                                                               retention or DeleteRecords
==============================================  =============  ======================================================
"""

from __future__ import annotations

from tidelog.model import TidelogError, TopicPartition
from tidelog.replication.follower_commands import LogCommand, TruncateTo, TruncationCause

ACCEPT_LOSS = "--accept-data-loss"


class SourceLostDataError(TidelogError):
    """The source has fewer records than the copy, and its epochs do not prove that they never were committed."""


def require_proven(partition: TopicPartition, command: LogCommand, log_start: int, log_end: int) -> None:
    """Raise SourceLostDataError if the command removes records without a proof."""
    if not isinstance(command, TruncateTo) or command.offset >= log_end:
        return
    if command.cause is TruncationCause.DIVERGING_EPOCH and command.offset > log_start:
        return
    raise SourceLostDataError(
        f"{partition}: the source's log ends at offset {command.offset}, but the copy has records from {log_start} up"
        f" to {log_end}, and the source's leader epochs do not prove that only these are gone. Nothing was removed from"
        f" the copy. If the source has lost its data, keep this copy. If the copy shall follow it, use {ACCEPT_LOSS}",
        offset=command.offset,
    )
