"""The commands of a ``Follower``.

=======================  ===========================================================  ==========================
command                  what the driver does                                         its report
=======================  ===========================================================  ==========================
TruncateTo               ``log.truncate_to(offset)``                                  ``written``
TruncateFully            ``log.truncate_fully_and_start_at(offset)``                  ``written``
Append                   ``log.append_as_follower(records, leader_epoch)``            ``written``
SetHighWatermark         ``log.update_high_watermark(offset)``                        ``written``
RaiseLogStart            ``log.maybe_increment_log_start_offset(offset)``             ``written``
ListOffsets              send a ListOffsets request to the leader                     ``listed``
BackOff                  poll again after ``wait_ms``; refresh the metadata if asked  none
Fail                     report the error, and refresh the metadata                   ``follow``, in a new epoch
=======================  ===========================================================  ==========================
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import Buffer


class NamedOffset(enum.IntEnum):
    """The timestamps of ListOffsets that a follower uses."""

    LATEST = -1
    EARLIEST = -2


class TruncationCause(enum.Enum):
    """The reason for a truncation, as a clause for a log line."""

    DIVERGING_EPOCH = "the leader's log diverges"
    LEADER_END = "the leader's log ends there"
    NO_EPOCHS = "the log has no leader epochs, so only the high watermark is certain"


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateTo:
    """Remove the records from ``offset`` on, and the epochs that begin there or later."""

    offset: int
    cause: TruncationCause
    high_watermark: int
    """The log's high watermark before."""

    @property
    def is_below_high_watermark(self) -> bool:
        """True if committed records are lost: an unclean election has happened. The driver must warn."""
        return self.offset < self.high_watermark


@dataclass(frozen=True, slots=True, kw_only=True)
class TruncateFully:
    """Remove all records. The empty log starts at ``offset``."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Append the leader's batches, without a partial last one and without those of an epoch above ``leader_epoch``.

    They fit into a segment if the request's limit does, apart from a single larger batch.
    """

    records: Buffer
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SetHighWatermark:
    """Set the high watermark. It is lower than before only in a new leader epoch."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RaiseLogStart:
    """Delete the records below ``offset``: the leader has done so."""

    offset: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ListOffsets:
    """Ask the leader for an offset. The driver returns the command with the response."""

    timestamp: NamedOffset
    leader_epoch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BackOff:
    """Wait after an error. ``error_code`` is Kafka's."""

    error_code: int
    wait_ms: int
    needs_metadata: bool
    """True if the error can mean that the partition's leader or topic has changed."""
    message: str = ""
    """The reason why records were refused. It is empty for an error of the leader or of the connection."""
    is_of_request: bool = False
    """True if the error is that of a request, and so of all its partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """Stop fetching until the metadata names a new leader epoch."""

    error_code: int
    message: str


Command = TruncateTo | TruncateFully | Append | SetHighWatermark | RaiseLogStart | ListOffsets | BackOff | Fail
LogCommand = TruncateTo | TruncateFully | Append | SetHighWatermark | RaiseLogStart
Commands = tuple[Command, ...]
