"""Operations on one partition log as frozen values, of which a list consists and which a failure prints.

``words`` gives an operation's line for the Java side (see DrivenLog.java). ``source`` writes a value, or a list, as the
Python that makes it, so that a failed list can be pasted into a test.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path

from differential.batches import Appended, Marker, OldMessages


@dataclass(frozen=True, slots=True)
class Clock:
    """Set the wall clock."""

    now_ms: int

    def words(self) -> tuple[object, ...]:
        return "clock", self.now_ms


@dataclass(frozen=True, slots=True)
class Configure:
    """Change one of the topic's settings."""

    key: str
    value: str

    def words(self) -> tuple[object, ...]:
        return "set", self.key, self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """Append as leader. ``origin`` is CLIENT, COORDINATOR or RAFT_LEADER."""

    batches: tuple[Appended, ...]
    leader_epoch: int = 0
    origin: str = "CLIENT"

    def words(self) -> tuple[object, ...]:
        return "append", _base64(self.batches), self.leader_epoch, self.origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicate:
    """Append as follower the data of a leader of ``leader_epoch``."""

    batches: tuple[Appended, ...]
    leader_epoch: int = 0

    def words(self) -> tuple[object, ...]:
        return "replicate", _base64(self.batches), self.leader_epoch


@dataclass(frozen=True, slots=True)
class UpdateHighWatermark:
    """Move the high watermark to the start of the batch that holds ``offset``, like ``IncrementHighWatermark``.

    Kafka 4.1 moves a high watermark within a batch back to that start when it resolves its position.
    """

    offset: int

    def words(self) -> tuple[object, ...]:
        return "update-high-watermark", self.offset


@dataclass(frozen=True, slots=True)
class IncrementHighWatermark:
    offset: int

    def words(self) -> tuple[object, ...]:
        return "increment-high-watermark", self.offset


@dataclass(frozen=True, slots=True)
class Roll:
    """Roll unless the active segment is empty: Kafka would delete it and create it again with the same name."""

    def words(self) -> tuple[object, ...]:
        return ("roll",)


@dataclass(frozen=True, slots=True)
class Flush:
    """Flush everything, including an empty active segment, and write a broker's checkpoints."""

    def words(self) -> tuple[object, ...]:
        return ("flush",)


@dataclass(frozen=True, slots=True)
class FlushNew:
    """Flush all appends since the last flush, as the flusher does, and report the time of the last flush."""

    def words(self) -> tuple[object, ...]:
        return ("flush-new",)


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """Truncate as a follower, then update the high watermark: only this makes Kafka search the last stable offset."""

    offset: int

    def words(self) -> tuple[object, ...]:
        return "truncate", self.offset


@dataclass(frozen=True, slots=True)
class TruncateFully:
    offset: int
    log_start_offset: int | None = None

    def words(self) -> tuple[object, ...]:
        return "truncate-fully", self.offset, self.log_start_offset


@dataclass(frozen=True, slots=True)
class IncrementLogStart:
    """Delete the records below an offset."""

    offset: int

    def words(self) -> tuple[object, ...]:
        return "increment-log-start", self.offset


@dataclass(frozen=True, slots=True)
class DeleteOldSegments:
    """Apply retention by the settings and the clock."""

    def words(self) -> tuple[object, ...]:
        return ("delete-old-segments",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """Run a round of the cleaner over the cleanable part.

    ``map_bytes`` is the memory for keys, 24 bytes each. ``buffer_bytes`` is the first size of a read.
    """

    map_bytes: int
    buffer_bytes: int

    def words(self) -> tuple[object, ...]:
        return "clean", self.map_bytes, self.buffer_bytes


@dataclass(frozen=True, slots=True)
class RemoveDeleted:
    """Remove the files of deleted segments that are due by the clock."""

    def words(self) -> tuple[object, ...]:
        return ("remove-deleted",)


@dataclass(frozen=True, slots=True)
class AssignEpoch:
    """Begin a leader epoch, at the log end by default."""

    epoch: int
    start_offset: int | None = None

    def words(self) -> tuple[object, ...]:
        return "assign-epoch", self.epoch, self.start_offset


@dataclass(frozen=True, slots=True)
class EndOffsetForEpoch:
    epoch: int

    def words(self) -> tuple[object, ...]:
        return "end-offset-for-epoch", self.epoch


@dataclass(frozen=True, slots=True)
class OffsetForTimestamp:
    timestamp: int

    def words(self) -> tuple[object, ...]:
        return "offset-for-timestamp", self.timestamp


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """Read with an ``isolation`` of LOG_END, HIGH_WATERMARK or TXN_COMMITTED."""

    offset: int
    max_bytes: int = 1_000_000
    isolation: str = "LOG_END"
    min_one_message: bool = True

    def words(self) -> tuple[object, ...]:
        return "read", self.offset, self.max_bytes, self.isolation, str(self.min_one_message).lower()


@dataclass(frozen=True, slots=True)
class Producers:
    """Report the producers that the log knows."""

    def words(self) -> tuple[object, ...]:
        return ("producers",)


@dataclass(frozen=True, slots=True)
class ExpireProducers:
    def words(self) -> tuple[object, ...]:
        return ("expire-producers",)


@dataclass(frozen=True, slots=True)
class Verify:
    """Get a guard for a producer that will begin a transaction. Its next appends carry the guard (KIP-890)."""

    producer_id: int
    sequence: int
    producer_epoch: int
    supports_epoch_bump: bool = True

    def words(self) -> tuple[object, ...]:
        bump = str(self.supports_epoch_bump).lower()
        return "verify", self.producer_id, self.sequence, self.producer_epoch, bump


@dataclass(frozen=True, slots=True)
class Reopen:
    """Stop cleanly or by a kill, then open again with the state of the checkpoints."""

    cleanly: bool = True

    def words(self) -> tuple[object, ...]:
        return "reopen", str(self.cleanly).lower()


Operation = (
    Clock
    | Configure
    | Append
    | Replicate
    | UpdateHighWatermark
    | IncrementHighWatermark
    | Roll
    | Flush
    | FlushNew
    | TruncateTo
    | TruncateFully
    | IncrementLogStart
    | DeleteOldSegments
    | Clean
    | RemoveDeleted
    | AssignEpoch
    | EndOffsetForEpoch
    | OffsetForTimestamp
    | Read
    | Producers
    | ExpireProducers
    | Verify
    | Reopen
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scenario:
    """A list of operations on a new or existing log, with the topic's settings as Kafka's texts."""

    settings: tuple[tuple[str, str], ...] = ()
    now_ms: int
    operations: tuple[Operation, ...]
    ends_cleanly: bool = True
    start: Path | None = None
    """A cleanly closed partition directory with batches of any codec. It is copied."""

    @property
    def cleans(self) -> bool:
        return any(isinstance(operation, Clean) for operation in self.operations)

    @property
    def recompresses(self) -> bool:
        """True if the log compresses batches itself: two libraries give different bytes."""
        if dict(self.settings).get("compression.type", "producer") not in ("producer", "uncompressed"):
            return True
        if self.start is not None:
            return True
        if self.cleans:
            return any(_is_compressed(batch) for batch in self._batches(Append, Replicate))
        return any(isinstance(batch, OldMessages) and batch.codec for batch in self._batches(Append))

    def _batches(self, *kinds: type[Append | Replicate]) -> Iterator[Appended]:
        for operation in self.operations:
            if isinstance(operation, kinds):
                yield from operation.batches


def _is_compressed(batch: Appended) -> bool:
    return not isinstance(batch, Marker) and batch.codec not in ("none", 0)


def line(words: Sequence[object]) -> str:
    return "\t".join("null" if word is None else str(word) for word in words)


def source(value: object, indent: str = "") -> str:
    """Return the expression that makes ``value``, without fields that have their default."""
    if isinstance(value, tuple) and value and is_dataclass(value[0]):
        inner = indent + "    "
        return "(\n" + "".join(f"{inner}{source(item, inner)},\n" for item in value) + f"{indent})"
    if not is_dataclass(value):
        return repr(value)
    parts = []
    for field in fields(value):
        held = getattr(value, field.name)
        if field.default is MISSING or held != field.default:
            text = source(held, indent)
            parts.append(f"{field.name}={text}" if field.kw_only else text)
    return f"{type(value).__name__}({', '.join(parts)})"


def _base64(batches: tuple[Appended, ...]) -> str:
    return base64.b64encode(b"".join(batch.to_bytes() for batch in batches)).decode()
