"""The progress and the result of a run, as values."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tidelog.mirroring.run.partition_copy import PartitionCopy
from tidelog.model import TopicPartition

_WINDOW_MS = 5_000


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorProgress:
    elapsed_ms: int
    partitions: int
    complete: int
    """The partitions without missing records."""
    failed: int
    copied_bytes: int
    copied_records: int
    """The offsets that the copy has grown by."""
    lag: int
    """The missing records: up to the bound of this run, or up to the source's end when following."""
    bytes_per_second: float
    """The rate of the last seconds."""
    left_ms: int | None
    """The estimated time until nothing is missing; None while it is unknown."""


ProgressCallback = Callable[[MirrorProgress], None]
EventCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedPartition:
    """The result for one partition."""

    partition: TopicPartition
    log_start: int
    log_end: int
    source_end: int | None
    copied_bytes: int
    copied_records: int
    removed_records: int
    is_complete: bool
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class MirrorResult:
    partitions: Sequence[CopiedPartition]
    copied_bytes: int
    elapsed_ms: int
    events: Sequence[str]
    """Sentences about the events, in sequence."""
    notes: Sequence[str]
    """Sentences about the parts of the source that the copy lacks."""

    @property
    def is_complete(self) -> bool:
        return all(one.is_complete for one in self.partitions)


class ProgressMeter:
    """The rates of a run, from the counts at several moments."""

    def __init__(self, begun_ms: int) -> None:
        self._begun_ms = begun_ms
        self._seen: list[tuple[int, int, int]] = [(begun_ms, 0, 0)]

    def measure(self, copies: Iterable[PartitionCopy], copied_bytes: int, now_ms: int) -> MirrorProgress:
        """Return the progress now."""
        copies = list(copies)
        records = sum(max(0, copy.end_offset - copy.begun_at) for copy in copies)
        lag = sum(copy.lag for copy in copies)
        self._seen.append((now_ms, copied_bytes, records))
        while len(self._seen) > 2 and self._seen[1][0] <= now_ms - _WINDOW_MS:
            self._seen.pop(0)
        then_ms, then_bytes, then_records = self._seen[0]
        span_ms = max(1, now_ms - then_ms)
        record_rate = (records - then_records) / span_ms
        return MirrorProgress(
            elapsed_ms=now_ms - self._begun_ms,
            partitions=len(copies),
            complete=sum(copy.is_at_end for copy in copies),
            failed=sum(copy.error is not None for copy in copies),
            copied_bytes=copied_bytes,
            copied_records=records,
            lag=lag,
            bytes_per_second=(copied_bytes - then_bytes) * 1000 / span_ms,
            left_ms=0 if not lag else round(lag / record_rate) if record_rate > 0 else None,
        )


def copied_partition(copy: PartitionCopy) -> CopiedPartition:
    """Return the result of one partition."""
    return CopiedPartition(
        partition=copy.partition,
        log_start=copy.log.log_start_offset,
        log_end=copy.end_offset,
        source_end=copy.source_end,
        copied_bytes=copy.copied_bytes,
        copied_records=max(0, copy.end_offset - copy.begun_at),
        removed_records=copy.removed_records,
        is_complete=copy.is_at_end,
        error=None if copy.error is None else str(copy.error),
    )
