"""A log as a list of epochs and payloads, a leader with a log like it, and a driver that executes commands on one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import takewhile

from tidelog.model import OffsetOutOfRangeError, TidelogError
from tidelog.protocol.errors import ErrorCode
from tidelog.replication import (
    Append,
    Command,
    Commands,
    FetchedPartition,
    FetchPosition,
    Follower,
    ListedPartition,
    ListOffsets,
    NamedOffset,
    Phase,
    RaiseLogStart,
    SetHighWatermark,
    TruncateFully,
    TruncateTo,
)
from tidelog.storage.epoch import (
    EpochEndOffset,
    FollowerTruncation,
    LeaderEpochCache,
    diverging_epoch,
    follower_truncation,
)


def encode(entries: list[tuple[int, str]]) -> bytes:
    return "".join(f"{epoch} {payload}\n" for epoch, payload in entries).encode()


def decode(records: bytes) -> list[tuple[int, str]]:
    entries = []
    for line in records.decode().splitlines():
        epoch, payload = line.split(" ")
        entries.append((int(epoch), payload))
    return entries


class ModelLog:
    """A list with a record for each offset from ``start`` on."""

    def __init__(
        self, entries: list[tuple[int, str]] | None = None, *, start: int = 0, high_watermark: int = 0
    ) -> None:
        self.log_start_offset = start
        self.high_watermark = max(start, high_watermark)
        self.cache = LeaderEpochCache()
        self.entries: list[tuple[int, str]] = []
        self.append(entries or [])

    @classmethod
    def of_epochs(cls, *epochs: int, start: int = 0, high_watermark: int = 0) -> ModelLog:
        """Return a log whose payloads name the offset and the epoch."""
        entries = [(epoch, f"{start + at}@{epoch}") for at, epoch in enumerate(epochs)]
        return cls(entries, start=start, high_watermark=high_watermark)

    @property
    def end_offset(self) -> int:
        return self.log_start_offset + len(self.entries)

    @property
    def epochs(self) -> ModelLog:
        return self

    @property
    def latest(self) -> int | None:
        return self.cache.latest_epoch

    def truncation_for(self, leader: EpochEndOffset, /) -> FollowerTruncation:
        return follower_truncation(self.cache, self.end_offset, leader)

    def append(self, entries: list[tuple[int, str]]) -> None:
        for epoch, payload in entries:
            if epoch >= 0:
                self.cache.assign(epoch, self.end_offset)
            self.entries.append((epoch, payload))

    def truncate_to(self, offset: int) -> None:
        if offset < self.log_start_offset:
            self.truncate_fully(offset)
            return
        del self.entries[max(0, offset - self.log_start_offset) :]
        self.cache.truncate_from_end(min(offset, self.end_offset))
        self.high_watermark = min(self.high_watermark, self.end_offset)

    def truncate_fully(self, offset: int) -> None:
        self.entries = []
        self.cache.clear()
        self.log_start_offset = self.high_watermark = offset

    def raise_log_start(self, offset: int) -> None:
        if offset > self.high_watermark:
            raise OffsetOutOfRangeError("above the high watermark", offset=offset)
        del self.entries[: offset - self.log_start_offset]
        self.log_start_offset = offset
        self.cache.truncate_from_start(offset)

    def committed(self) -> list[tuple[int, tuple[int, str]]]:
        """Return the offsets and records below the high watermark."""
        end = self.high_watermark - self.log_start_offset
        return list(enumerate(self.entries[:end], self.log_start_offset))


@dataclass(kw_only=True)
class ModelLeader:
    """A leader in one epoch. With ``is_consumer`` it returns records up to the high watermark only."""

    log: ModelLog
    epoch: int
    is_consumer: bool = False
    max_records: int = 1000

    def fetch(self, asked: FetchPosition) -> FetchedPartition:
        if asked.leader_epoch != self.epoch:
            older = asked.leader_epoch < self.epoch
            return FetchedPartition(
                error_code=ErrorCode.FENCED_LEADER_EPOCH if older else ErrorCode.UNKNOWN_LEADER_EPOCH
            )
        log = self.log
        offsets = FetchedPartition(high_watermark=log.high_watermark, log_start_offset=log.log_start_offset)
        try:
            if asked.last_fetched_epoch >= 0:
                diverging = diverging_epoch(
                    log.cache,
                    log_start=log.log_start_offset,
                    log_end=log.end_offset,
                    last_fetched_epoch=asked.last_fetched_epoch,
                    fetch_offset=asked.offset,
                )
                if diverging is not None:
                    return replace(offsets, diverging_epoch=diverging)
        except OffsetOutOfRangeError:
            return FetchedPartition(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        if not log.log_start_offset <= asked.offset <= log.end_offset:
            return FetchedPartition(error_code=ErrorCode.OFFSET_OUT_OF_RANGE)
        end = log.high_watermark if self.is_consumer else log.end_offset
        end = max(asked.offset, min(end, asked.offset + self.max_records))
        found = log.entries[asked.offset - log.log_start_offset : end - log.log_start_offset]
        return replace(offsets, records=encode(found))

    def list_offsets(self, asked: ListOffsets) -> ListedPartition:
        if asked.timestamp is NamedOffset.EARLIEST:
            return ListedPartition(offset=self.log.log_start_offset)
        return ListedPartition(offset=self.log.high_watermark if self.is_consumer else self.log.end_offset)


@dataclass(kw_only=True)
class Driver:
    """Execute a follower's commands on a model log at once, except requests, which it keeps."""

    log: ModelLog
    follower: Follower = field(init=False)
    done: list[Command] = field(default_factory=list)
    fails_with: TidelogError | None = None
    """The error of the next command for the log."""

    def __post_init__(self) -> None:
        self.follower = Follower(self.log, backoff_ms=100)

    def run(self, commands: Commands, now_ms: int = 0) -> Commands:
        """Execute commands and their reports' commands. Return all of them."""
        executed: list[Command] = []
        while commands:
            executed += commands
            try:
                for command in commands:
                    self.perform(command)
            except TidelogError as error:
                commands = self.follower.write_failed(error, now_ms)
            else:
                commands = self.follower.written(now_ms) if self.follower.phase is Phase.WRITING else ()
        self.done += executed
        return tuple(executed)

    def perform(self, command: Command) -> None:
        if self.fails_with is not None and self.follower.phase is Phase.WRITING:
            error, self.fails_with = self.fails_with, None
            raise error
        match command:
            case TruncateTo(offset=offset):
                self.log.truncate_to(offset)
            case TruncateFully(offset=offset):
                self.log.truncate_fully(offset)
            case Append(records=records, leader_epoch=leader_epoch):
                self.log.append(list(takewhile(lambda entry: entry[0] <= leader_epoch, decode(bytes(records)))))
            case SetHighWatermark(offset=offset):
                self.log.high_watermark = offset
            case RaiseLogStart(offset=offset):
                self.log.raise_log_start(offset)
            case _:
                pass

    def round(self, leader: ModelLeader, now_ms: int = 0) -> Commands:
        """Send one Fetch and the ListOffsets that follow from it. Return all commands."""
        position = self.follower.poll(now_ms)
        if position is None:
            return ()
        executed = self.run(self.follower.fetched(position, leader.fetch(position), now_ms), now_ms)
        while executed and isinstance(executed[-1], ListOffsets):
            answer = leader.list_offsets(executed[-1])
            executed += self.run(self.follower.listed(executed[-1], answer, now_ms), now_ms)
        return executed
