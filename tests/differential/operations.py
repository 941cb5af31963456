"""Operations on one partition log, as frozen values: what a list is made of, and what is printed when it fails.

``words`` is an operation's line for the Java side (see DrivenLog.java). ``source`` writes a value, or a whole list, as
the Python that makes it, so that a list which failed can be pasted into a test.
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
    """As leader. ``origin``: CLIENT, COORDINATOR or RAFT_LEADER."""

    batches: tuple[Appended, ...]
    leader_epoch: int = 0
    origin: str = "CLIENT"

    def words(self) -> tuple[object, ...]:
        return "append", _base64(self.batches), self.leader_epoch, self.origin


@dataclass(frozen=True, slots=True, kw_only=True)
class Replicate:
    """Append as follower what a leader of ``leader_epoch`` sent."""

    batches: tuple[Appended, ...]
    leader_epoch: int = 0

    def words(self) -> tuple[object, ...]:
        return "replicate", _base64(self.batches), self.leader_epoch


@dataclass(frozen=True, slots=True)
class UpdateHighWatermark:
    """To the beginning of the batch that holds ``offset``, as is ``IncrementHighWatermark``.

    Kafka 4.1 moves a high watermark within a batch back there when it looks up where it lies.
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
    """Unless the active segment is empty: Kafka would delete it and make it anew, under the same name."""

    def words(self) -> tuple[object, ...]:
        return ("roll",)


@dataclass(frozen=True, slots=True)
class Flush:
    """Flush all, the active segment even if it is empty; a broker's checkpoints are written too."""

    def words(self) -> tuple[object, ...]:
        return ("flush",)


@dataclass(frozen=True, slots=True)
class FlushNew:
    """Flush what was appended since the last flush, as the flusher does; tells when the log was flushed last."""

    def words(self) -> tuple[object, ...]:
        return ("flush-new",)


@dataclass(frozen=True, slots=True)
class TruncateTo:
    """As a follower, and take the high watermark over again: only then Kafka looks for the last stable offset anew."""

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
    """Delete the records below."""

    offset: int

    def words(self) -> tuple[object, ...]:
        return "increment-log-start", self.offset


@dataclass(frozen=True, slots=True)
class DeleteOldSegments:
    """Retention, by the settings and the clock."""

    def words(self) -> tuple[object, ...]:
        return ("delete-old-segments",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    """A round of the cleaner over what can be cleaned.

    ``map_bytes``: memory for keys, of which each takes 24; ``buffer_bytes``: what is read at once, at first.
    """

    map_bytes: int
    buffer_bytes: int

    def words(self) -> tuple[object, ...]:
        return "clean", self.map_bytes, self.buffer_bytes


@dataclass(frozen=True, slots=True)
class RemoveDeleted:
    """Files of deleted segments that are due by the clock go."""

    def words(self) -> tuple[object, ...]:
        return ("remove-deleted",)


@dataclass(frozen=True, slots=True)
class AssignEpoch:
    """A leader's epoch begins, at the log end unless told otherwise."""

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
    """``isolation``: LOG_END, HIGH_WATERMARK or TXN_COMMITTED."""

    offset: int
    max_bytes: int = 1_000_000
    isolation: str = "LOG_END"
    min_one_message: bool = True

    def words(self) -> tuple[object, ...]:
        return "read", self.offset, self.max_bytes, self.isolation, str(self.min_one_message).lower()


@dataclass(frozen=True, slots=True)
class Producers:
    """What the log knows of its producers."""

    def words(self) -> tuple[object, ...]:
        return ("producers",)


@dataclass(frozen=True, slots=True)
class ExpireProducers:
    def words(self) -> tuple[object, ...]:
        return ("expire-producers",)


@dataclass(frozen=True, slots=True)
class Verify:
    """A guard for a producer that is about to begin a transaction here; its next appends bring it along (KIP-890)."""

    producer_id: int
    sequence: int
    producer_epoch: int
    supports_epoch_bump: bool = True

    def words(self) -> tuple[object, ...]:
        bump = str(self.supports_epoch_bump).lower()
        return "verify", self.producer_id, self.sequence, self.producer_epoch, bump


@dataclass(frozen=True, slots=True)
class Reopen:
    """Stop, in order or as by a kill, and open again with what the checkpoints then say."""

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
    """A list of operations on a new log, or one that lies there, with the topic's settings in Kafka's words."""

    settings: tuple[tuple[str, str], ...] = ()
    now_ms: int
    operations: tuple[Operation, ...]
    ends_cleanly: bool = True
    start: Path | None = None
    """A partition directory that was stopped in order, with batches of any codec; it is copied."""

    @property
    def cleans(self) -> bool:
        return any(isinstance(operation, Clean) for operation in self.operations)

    @property
    def recompresses(self) -> bool:
        """The log compresses batches itself, and two libraries do not make the same bytes."""
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
    """The expression that makes ``value``; fields that have their default are left out."""
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
