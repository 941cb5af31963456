"""Our side: a PartitionLog that runs the operations and reports results in the words of DrivenLog.java.

As on the Java side, a flush writes a broker's checkpoints, and opening after a kill begins with them. A segment's
jitter follows from its base offset instead of chance.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from differential.operations import Operation, Scenario
from differential.our_cleaner import OurCleaner
from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import InvalidRecordError, Isolation, LogOffsetMetadata, OffsetOutOfRangeError, TidelogError
from tidelog.record.decode import decode_columns
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.append.append_result import AppendResult
from tidelog.storage.log.partition_log import LogRead, LogReadRequest, OpenRequest, PartitionLog
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import NO_GUARD, AppendOrigin, VerificationGuard
from tidelog.testing import ManualClock, ManualScheduler

_ISOLATIONS = {
    "LOG_END": Isolation.LOG_END,
    "HIGH_WATERMARK": Isolation.READ_UNCOMMITTED,
    "TXN_COMMITTED": Isolation.READ_COMMITTED,
}
_FIRST = re.compile(r"first=\d+")
"""Kafka does not know the first offset if the first batch has an old format."""
_MAGIC_POSITION = 16
_JITTER_STEP_MS = 1_000_003
_V2 = 2
_VERIFIES = "transaction.partition.verification.enable"
_KAFKA_NAMES = {
    "ClosedError": "KafkaStorageException",
    "InvalidTransactionStateError": "InvalidTxnStateException",
    "UnsupportedFormatError": "UnsupportedForMessageFormatException",
    "UnsupportedCompressionError": "UnsupportedCompressionTypeException",
    "ValueError": "IllegalArgumentException",
}


class SetClock:
    """A clock that does not move until it is set."""

    def __init__(self, now_ms: int) -> None:
        self.time_ms = now_ms

    def now_ms(self) -> int:
        return self.time_ms

    def monotonic_ms(self) -> int:
        return self.time_ms

    def sleep_ms(self, duration_ms: int) -> None:
        raise AssertionError("nothing here waits")


class OurSide:
    """The run of one list in one directory."""

    def __init__(self, scenario: Scenario, directory: Path) -> None:
        self._scenario = scenario
        self._directory = directory
        self._settings = dict(scenario.settings)
        self._verifies = self._settings.pop(_VERIFIES, "false") == "true"
        self._guards: dict[int, VerificationGuard] = {}
        self._time = SetClock(scenario.now_ms)
        self._cleaner = OurCleaner(self._time)
        self._recovery_point = self._log_start = self._high_watermark = 0
        self._log = self._open(cleanly=True)

    def run(self) -> list[str]:
        """Run the list, and return the results of the opening, of each operation and of the end."""
        results = [f"opened | {self._state()}"]
        results += [self.perform(operation) for operation in self._scenario.operations]
        results.append(self._close() if self._scenario.ends_cleanly else self._kill())
        return results

    def forget(self) -> None:
        """Close the files after a list that ended early."""
        self._log.close_handlers()

    def perform(self, operation: Operation) -> str:
        name, *words = operation.words()
        method = getattr(self, "_" + str(name).replace("-", "_"))
        result = self._line(lambda: method(*words))
        self._hold_jitter()
        return result

    def _hold_jitter(self) -> None:
        below_ms = min(self._log.config.segment_jitter_ms, self._log.config.segment_ms)
        if below_ms > 1:  # otherwise the jitter is always 0
            active = self._log._state.active
            active.roll_jitter_ms = active.base_offset * _JITTER_STEP_MS % below_ms
            active._apply_limits(active._limits)

    def _line(self, work: Callable[[], object]) -> str:
        try:
            done = work()
            result = "done" if done is None else str(done).lower() if isinstance(done, bool) else str(done)
        except (TidelogError, ValueError) as error:
            result = f"error {_kafka_name(error)}"
            if isinstance(error, InvalidRecordError) and error.record_errors:
                result += f" of records {','.join(str(one.batch_index) for one in error.record_errors)}"
        return f"{result} | {self._state()}"

    # --- opening and ending ---

    def _open(self, *, cleanly: bool) -> PartitionLog:
        tasks = ManualScheduler(clock := ManualClock(self._time.now_ms()))
        tasks.startup()
        log = PartitionLog.open(
            OpenRequest(
                fs=LOCAL,
                directory=self._directory,
                clock=self._time,
                config=LogConfig.from_properties(self._settings),
                clean_shutdown=cleanly,
                recovery_point=self._recovery_point,
                log_start_offset=self._log_start,
                is_sole_replica=False,
                verifies_transactions=self._verifies,
                scheduler=tasks,
            )
        )
        clock.sleep_ms(0)  # HeldTasks.java runs the tasks of an opening after it, too
        tasks.shutdown()
        log.update_high_watermark(_batch_start(log, self._high_watermark))
        self._log = log
        self._hold_jitter()
        return log

    def _reopen(self, cleanly: str) -> str:
        if cleanly == "true":
            self._close()
        else:
            self._kill()
        self._guards.clear()
        self._log = self._open(cleanly=cleanly == "true")
        return "opened"

    def _close(self) -> str:
        self._flush()
        self._log.close()
        return "closed"

    def _kill(self) -> str:
        self._log.close_handlers()
        return "killed"

    def _flush(self) -> str:
        self._log.flush(force=True)
        self._recovery_point = self._log.recovery_point
        self._log_start = self._log.log_start_offset
        self._high_watermark = self._log.high_watermark
        return f"flushed at {self._log.counters.last_flush_ms}"

    def _flush_new(self) -> str:
        self._log.flush()
        return f"flushed at {self._log.counters.last_flush_ms}"

    def _clock(self, now_ms: int) -> None:
        self._time.time_ms = now_ms

    def _set(self, key: str, value: str) -> None:
        self._settings[key] = value
        self._log.update_config(LogConfig.from_properties(self._settings))

    # --- appending ---

    def _append(self, text: str, leader_epoch: int, origin: str) -> str:
        buffer = bytearray(base64.b64decode(text))
        producer_id = int.from_bytes(buffer[43:51], "big", signed=True)
        guard = self._guards.get(producer_id, NO_GUARD)
        return _appended(
            self._log.append_as_leader(buffer, leader_epoch=leader_epoch, origin=AppendOrigin[origin], guard=guard)
        )

    def _replicate(self, text: str, leader_epoch: int) -> str:
        buffer = base64.b64decode(text)
        appended = _appended(self._log.append_as_follower(buffer, leader_epoch))
        return _FIRST.sub("first=-1", appended) if 0 <= buffer[_MAGIC_POSITION] < _V2 else appended

    # --- offsets, epochs, reading ---

    def _update_high_watermark(self, offset: int) -> int:
        return self._log.update_high_watermark(_batch_start(self._log, offset))

    def _increment_high_watermark(self, offset: int) -> str:
        before = self._log.maybe_increment_high_watermark(self._place_of(_batch_start(self._log, offset)))
        return "none" if before is None else _place(before)

    def _place_of(self, offset: int) -> LogOffsetMetadata:
        read = _read_at(self._log, offset)
        return LogOffsetMetadata(offset) if read is None else read.start

    def _roll(self) -> int:
        self._log.roll()
        return self._log.end_offset

    def _truncate(self, offset: int) -> bool:
        truncated = self._log.truncate_to(offset)
        self._cleaner.cut(offset)
        self._log.update_high_watermark(_batch_start(self._log, self._log.high_watermark))
        return truncated

    def _truncate_fully(self, offset: int, log_start_offset: int | None) -> None:
        self._log.truncate_fully_and_start_at(offset, log_start_offset=log_start_offset)
        self._cleaner.cut(offset)

    def _increment_log_start(self, offset: int) -> bool:
        return self._log.maybe_increment_log_start_offset(offset)

    def _delete_old_segments(self) -> int:
        return len(self._log.delete_old_segments().deletions)

    def _clean(self, map_bytes: int, buffer_bytes: int) -> str:
        return self._cleaner.clean(self._log, map_bytes, buffer_bytes)

    def _remove_deleted(self) -> None:
        self._log.remove_deleted()

    def _assign_epoch(self, epoch: int, start_offset: int | None) -> None:
        self._log.assign_epoch(epoch, self._log.end_offset if start_offset is None else start_offset)

    def _end_offset_for_epoch(self, epoch: int) -> str:
        end = self._log.epochs.end_offset_for(epoch)
        return "none" if end is None else f"{end.epoch} ends at {end.end_offset}"

    def _offset_for_timestamp(self, timestamp: int) -> str:
        found = self._log.list_offset(timestamp, Isolation.LOG_END)
        if found is None:
            return "none"
        if found.timestamp is not None:
            return f"{found.timestamp} at {found.offset}"
        return f"-1 at {found.offset} epoch {-1 if found.leader_epoch is None else found.leader_epoch}"

    def _read(self, offset: int, max_bytes: int, isolation: str, min_one_message: str) -> str:
        read = self._log.read(
            LogReadRequest(
                start_offset=offset,
                max_bytes=max_bytes,
                isolation=_ISOLATIONS[isolation],
                min_one_message=min_one_message == "true",
            )
        )
        data = read.data()
        incomplete = bool(data) and read.batches is not None and read.batches.first_entry_incomplete
        aborted = (
            "none"
            if read.aborted is None or not data
            else ",".join(f"{a.producer_id}:{a.first_offset}" for a in read.aborted)
        )
        return (
            f"{_position(read.start)} bytes={len(data)} sha256={hashlib.sha256(data).hexdigest()[:16]}"
            f" incomplete={str(incomplete).lower()} aborted=[{aborted}]"
        )

    # --- producers ---

    def _producers(self) -> str:
        lines = []
        for producer_id, entry in sorted(self._log.producers.items()):
            since = entry.transaction_first_offset
            lines.append(
                f"{producer_id} epoch {entry.producer_epoch} sequence {entry.last_sequence}"
                f" at {entry.last_timestamp} coordinator {entry.coordinator_epoch}"
                f" since {-1 if since is None else since}"
            )
        return "producers: " + "; ".join(lines)

    def _verify(self, producer_id: int, sequence: int, producer_epoch: int, supports_epoch_bump: str) -> str:
        guard = self._log.start_verification(
            producer_id, sequence, producer_epoch, supports_epoch_bump=supports_epoch_bump == "true"
        )
        self._guards[producer_id] = guard
        return "no guard" if guard == NO_GUARD else "guard"

    def _expire_producers(self) -> None:
        self._log.remove_expired_producers()

    # --- the log's state ---

    def _state(self) -> str:
        log = self._log
        try:
            offsets = log.offsets()
        except TidelogError as error:
            return _kafka_name(error)
        epoch = log.epochs.latest
        return (
            f"start={offsets.log_start} stable={_place(offsets.last_stable)} high={_place(offsets.high_watermark)}"
            f" end={_place(offsets.log_end)} recovery={log.recovery_point} epoch={-1 if epoch is None else epoch}"
            f" segments={','.join(map(str, log.base_offsets))}"
        )


def _batch_start(log: PartitionLog, offset: int) -> int:
    """Return the start of the batch at ``offset`` or the log start, or the log end if it begins below the log start."""
    read = _read_at(log, max(offset, log.log_start_offset))
    if read is None or read.batches is None:
        return offset if read is None else log.end_offset
    start = _base_offset(read.data())
    return log.end_offset if start < log.log_start_offset else start


def _base_offset(batch: bytes) -> int:
    """Return its first record's offset, which the header of a compressed set in an old format lacks."""
    table = scan_batches(batch).take(slice(0, 1))
    if table.record_count[0] >= 0:
        return int(table.base_offset[0])
    return min(int(columns.offset[0]) for columns in decode_columns(batch, table, ColumnDecoder()))


def _read_at(log: PartitionLog, offset: int) -> LogRead | None:
    try:
        return log.read(LogReadRequest(start_offset=offset, max_bytes=1, isolation=Isolation.LOG_END))
    except OffsetOutOfRangeError:
        return None


def _appended(result: AppendResult) -> str:
    if result.last_offset < result.first_offset:
        return "first=-1 last=-1 time=-1"
    return f"first={result.first_offset} last={result.last_offset} time={result.log_append_time}"


def _kafka_name(error: Exception) -> str:
    name = type(error).__name__
    return _KAFKA_NAMES.get(name) or name.removesuffix("Error") + "Exception"


def _place(offset: LogOffsetMetadata) -> str:
    return f"{offset.message_offset}{_position(offset)}"


def _position(offset: LogOffsetMetadata) -> str:
    return f"@{offset.segment_base_offset}+{offset.position_in_segment}"
