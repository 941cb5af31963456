"""A clean that writes nothing: the keys that its offset map would hold, and the bytes that each segment would keep.

It runs the cleaner's own steps over a read-only view: the keys of the dirty part go into an offset map, then every
batch below the end is decided and filtered, and the result is only counted. A damaged batch ends it, as it would end
the clean. Memory: the map (at most the cleaner's), a chunk, and the filtered bytes of a chunk.

Thread rule: one thread for a trial. Source of the steps: ``storage/cleaner/clean/clean_log.py``.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tidelog.kernel import OffsetMap
from tidelog.model import CorruptRecordError, InvalidRecordError, TidelogError, UnsupportedCompressionError
from tidelog.record.cleaning import CleaningRules, clean_batches, hash_keys, put_keys
from tidelog.runtime.progress import Advance
from tidelog.storage.cleaner.clean.cleaned_transactions import CleanedTransactions
from tidelog.storage.cleaner.clean.retention_rules import RetentionRules
from tidelog.storage.cleaner.cleaner_settings import CleanerSettings, enough_map_bytes
from tidelog.storage.index import AbortedTxn
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.log.view.log_view import LogView
from tidelog.storage.log.view.transaction_scan import AbortedRanges
from tidelog.storage.log.view.view_producers import read_producers
from tidelog.storage.log.view.view_state import ViewSegment
from tidelog.storage.manager.compact.compact_plan import CompactionOutlook
from tidelog.storage.manager.compact.obstacles import Obstacle, ObstacleKind
from tidelog.storage.producer import LastRecord
from tidelog.storage.segment.file_names import FileKind
from tidelog.storage.segment.segment_reader import Chunk

_CHUNK_BYTES = 2 * 1024 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialSegment:
    """The counts of one segment's batches. Records that a clean drops unread, of aborted transactions, count in the
    bytes only."""

    base_offset: int
    bytes_read: int
    bytes_kept: int
    records_read: int
    records_kept: int
    keyless: int
    """The records without a key, which a clean drops."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialClean:
    """``keys`` are the distinct keys in the map, at most ``map_keys``. A full map ends the clean at
    ``next_dirty_offset``, and a further clean continues there. ``segments`` are the rewritten ones."""

    keys: int
    map_keys: int
    next_dirty_offset: int
    segments: tuple[TrialSegment, ...]
    stopped_by: Obstacle | None = None

    @property
    def bytes_read(self) -> int:
        return sum(segment.bytes_read for segment in self.segments)

    @property
    def bytes_kept(self) -> int:
        return sum(segment.bytes_kept for segment in self.segments)

    @property
    def bytes_freed(self) -> int:
        return self.bytes_read - self.bytes_kept


_SLOT_BYTES = 24
"""A slot of an offset map has a hash of 16 bytes and an offset, in Kafka and here."""


def map_keys(cleaner: CleanerSettings) -> int:
    """Return the number of keys that the offset map of a cleaner's thread holds."""
    return int(cleaner.map_bytes // _SLOT_BYTES * cleaner.dedupe_load_factor)


def try_clean(
    view: LogView, log: CompactionOutlook, cleaner: CleanerSettings, *, now_ms: int, advance: Advance
) -> TrialClean:
    """Try the next clean of a log with dirty bytes. ``advance`` receives the bytes of each chunk that was read.

    A damaged batch is in ``stopped_by``. Raise other errors of reading the log.
    """
    assert log.plan is not None
    trial = _Trial(view, log, cleaner, now_ms, advance)
    try:
        end = trial.learn_keys()
        segments = tuple(trial.filter_all(end))
    except (CorruptRecordError, UnsupportedCompressionError, InvalidRecordError) as error:
        return trial.result(log.plan.first_dirty_offset, (), _obstacle(view, error))
    return trial.result(max(log.plan.first_dirty_offset, end), segments)


class _Trial:
    def __init__(
        self, view: LogView, log: CompactionOutlook, cleaner: CleanerSettings, now_ms: int, advance: Advance
    ) -> None:
        assert log.plan is not None
        self._view = view
        self._plan = log.plan
        self._config = log.settings.config
        self._high_watermark = log.high_watermark
        self._now_ms = now_ms
        self._advance = advance
        self._aborted = view.transactions(log.high_watermark).aborted
        offsets = log.plan.end_offset - log.plan.first_dirty_offset
        size = min(cleaner.map_bytes, enough_map_bytes(offsets))
        settings = replace(cleaner, threads=1, dedupe_buffer_bytes=size)
        self._map: OffsetMap = settings.new_map(secrets.token_bytes(16))
        self._map_keys = map_keys(cleaner)

    def result(
        self, next_dirty_offset: int, segments: tuple[TrialSegment, ...], stopped_by: Obstacle | None = None
    ) -> TrialClean:
        return TrialClean(
            keys=len(self._map),
            map_keys=self._map_keys,
            next_dirty_offset=next_dirty_offset,
            segments=segments,
            stopped_by=stopped_by,
        )

    def learn_keys(self) -> int:
        """Fill the map from the dirty part. Return the offset up to which the clean rewrites, 0 for none."""
        start, end = self._plan.first_dirty_offset, self._plan.end_offset
        for segment in self._segments(start, end):
            for chunk in self._chunks(segment, start):
                table = chunk.table
                hashed = hash_keys(
                    self._map,
                    chunk.buffer,
                    table,
                    wanted=~(table.is_control | self._aborted.hits(table)),
                    start_offset=start,
                    base_position=chunk.base_position,
                    max_record_bytes=self._config.max_decompressed_message_bytes,
                )
                if not put_keys(self._map, hashed, start_offset=start):
                    return self._map.latest_offset + 1
        self._map.latest_offset = max(self._map.latest_offset, end - 1)
        return end

    def filter_all(self, end: int) -> Iterator[TrialSegment]:
        """Filter all batches of the segments that begin below ``end``, and yield the counts of each segment."""
        transactions = CleanedTransactions()
        transactions.add(_entries(self._aborted))
        rules = RetentionRules(
            _last_records(self._view, self._config, self._now_ms),
            high_watermark=self._high_watermark,
            now_ms=self._now_ms,
        )
        clean_part = [one for one in self._view.state.segments if one.base_offset < self._plan.first_dirty_offset]
        horizon = self._modified_ms(clean_part[-1]) - self._config.delete_retention_ms if clean_part else 0
        for segment in self._segments(0, end):
            yield self._filter(segment, transactions, rules, horizon)

    def _filter(
        self, segment: ViewSegment, transactions: CleanedTransactions, rules: RetentionRules, legacy_horizon_ms: int
    ) -> TrialSegment:
        cleaning = CleaningRules(
            now_ms=self._now_ms,
            delete_retention_ms=self._config.delete_retention_ms,
            retain_legacy_deletes=self._modified_ms(segment) > legacy_horizon_ms,
        )
        counts = np.zeros(5, np.int64)
        for chunk in self._chunks(segment, 0):
            decisions = rules.decide(chunk.table, transactions.decide(chunk).discardable)
            done = clean_batches(
                chunk.buffer,
                chunk.table,
                decisions,
                self._map,
                cleaning,
                base_position=chunk.base_position,
                max_record_bytes=self._config.max_decompressed_message_bytes,
            ).stats
            counts += (done.bytes_read, done.bytes_kept, done.records_read, done.records_kept, done.invalid_records)
        bytes_read, bytes_kept, records_read, records_kept, keyless = counts.tolist()
        return TrialSegment(
            base_offset=segment.base_offset,
            bytes_read=bytes_read,
            bytes_kept=bytes_kept,
            records_read=records_read,
            records_kept=records_kept,
            keyless=keyless,
        )

    def _segments(self, start: int, end: int) -> Sequence[ViewSegment]:
        return self._view.state.segments.between(start, end)

    def _chunks(self, segment: ViewSegment, start_offset: int) -> Iterator[Chunk]:
        """Yield the validated batches of a segment. Raise CorruptRecordError for the first damaged one."""
        with segment.open(self._view.fs, self._view.directory) as reader:
            try:
                start = reader.position_of(start_offset) if start_offset > segment.base_offset else 0
                end = self._view.state.end_position(segment)
                size = reader.size if end is None else end
                for chunk in reader.chunks(start, end, chunk_bytes=_CHUNK_BYTES):
                    table = chunk.table
                    if not (table.crc_ok & table.header_ok).all():
                        bad = table.row(int(np.argmin(table.crc_ok & table.header_ok)))
                        problem = "header contradicts itself" if bad.crc_ok else "CRC does not match"
                        raise CorruptRecordError(
                            f"the batch's {problem}", position=bad.position, offset=bad.base_offset
                        )
                    start = table.end_position
                    if len(table):
                        yield chunk
                    self._advance(len(chunk.buffer))
                if start < size:
                    raise CorruptRecordError("the bytes are not a complete batch", position=start)
            except TidelogError as error:
                error.path = error.path or str(reader.path)
                raise

    def _modified_ms(self, segment: ViewSegment) -> int:
        return self._view.fs.stat(segment.files.path(self._view.directory, FileKind.LOG)).mtime_ms


def _entries(aborted: AbortedRanges) -> Iterator[AbortedTxn]:
    columns = (aborted.producer_id, aborted.first_offset, aborted.last_offset)
    for producer_id, first, last in zip(*(column.tolist() for column in columns), strict=True):
        yield AbortedTxn(producer_id, first, last, last)


def _last_records(view: LogView, config: LogConfig, now_ms: int) -> Mapping[int, LastRecord]:
    """Return the last record of each producer that has not expired; a clean keeps its batch."""
    return {
        entry.producer_id: entry.last_record
        for entry in read_producers(view).values()
        if entry.transaction_first_offset is not None
        or now_ms - entry.last_timestamp < config.producer_id_expiration_ms
    }


def _obstacle(view: LogView, error: TidelogError) -> Obstacle:
    return Obstacle(
        kind=ObstacleKind.CORRUPT,
        path=view.directory if error.path is None else Path(error.path),
        position=error.position,
        offset=error.offset,
        what=error.message,
    )
