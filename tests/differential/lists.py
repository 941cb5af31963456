"""Lists of operations, drawn in advance from a seed and the expected state of the log.

``_Expected`` follows the log roughly (ends, batch boundaries, epochs, producers), so that most operations make sense.
If it is wrong, both sides refuse the operation. Each list has a character.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from differential.batches import Appended, Batch, Marker, OldMessages
from differential.characters import HOUR_MS, WEIGHTS, Character
from differential.operations import (
    Append,
    AssignEpoch,
    Clean,
    Clock,
    Configure,
    DeleteOldSegments,
    EndOffsetForEpoch,
    ExpireProducers,
    Flush,
    FlushNew,
    IncrementHighWatermark,
    IncrementLogStart,
    OffsetForTimestamp,
    Operation,
    Producers,
    Read,
    RemoveDeleted,
    Reopen,
    Replicate,
    Roll,
    Scenario,
    TruncateFully,
    TruncateTo,
    UpdateHighWatermark,
    Verify,
)

START_MS = 1_700_000_000_000
_ALL_BYTES = 1_000_000
_MAPS = tuple(24 * keys for keys in (3, 8, 30, 30, 1000, 1000))
_BUFFERS = (64, 300, 1000, 65_536)
_PRODUCERS = (1, 2, 3, 4000)
_SETTINGS = (
    ("segment.ms", ("1000", "60000", str(HOUR_MS), str(7 * 24 * HOUR_MS))),
    ("internal.segment.bytes", ("800", "2000", "20000")),
    ("max.compaction.lag.ms", ("1000", str(HOUR_MS), str(2**63 - 1))),
    ("index.interval.bytes", ("0", "150", "4096")),
    ("segment.index.bytes", ("2000", "4096")),
    ("flush.messages", ("3", str(2**63 - 1))),
    ("message.timestamp.type", ("CreateTime", "LogAppendTime")),
    ("preallocate", ("true", "false")),
    ("delete.retention.ms", ("0", "60000")),
    ("file.delete.delay.ms", ("0", "60000")),
    ("max.message.bytes", ("600", "1048588")),
)
"""The settings that a list may change, and their values."""
_POLICIES = ("cleanup.policy", ("delete", "compact", "compact,delete"))
"""The setting that a list may also change, unless the log is cleaned."""


@dataclass(slots=True)
class _Producer:
    epoch: int = 0
    sequence: int = 0
    in_transaction: bool = False
    sent: list[tuple[int, int]] = field(default_factory=list)
    """(base sequence, records) of the last batches."""


class _Expected:
    """The list so far, and the expected state of the log after it."""

    def __init__(self, draw: random.Random, character: Character) -> None:
        self.draw = draw
        self.character = character
        self.operations: list[Operation] = []
        self.now_ms = START_MS
        self.start = self.end = self.high = 0
        self.bounds = [0]
        """The beginnings of the batches, and the log end."""
        self.epoch = 0
        self.coordinator_epoch = 0
        self.producers = {producer_id: _Producer() for producer_id in _PRODUCERS}

    # --- appending ---

    def plain(self) -> None:
        self._append(self._batch())

    def idempotent(self) -> None:
        producer_id = self.draw.choice(_PRODUCERS[:2])
        self._append(self._of_producer(producer_id, transactional=False))

    def transactional(self) -> None:
        producer_id = self.draw.choice(_PRODUCERS[1:])
        batch = self._of_producer(producer_id, transactional=True)
        if self.character.verifies and self.draw.random() < 0.7:
            bump = self.draw.random() < 0.6
            self.operations.append(Verify(producer_id, batch.base_sequence, batch.producer_epoch, bump))
        self._append(batch)

    def marker(self) -> None:
        self._end_transaction(self.draw.choice(self._in_transaction() or _PRODUCERS))

    def _in_transaction(self) -> list[int]:
        return [one for one in _PRODUCERS if self.producers[one].in_transaction]

    def _end_transaction(self, producer_id: int) -> None:
        producer = self.producers[producer_id]
        if self.draw.random() < 0.3:
            self.coordinator_epoch += 1
        marker = Marker(
            committed=self.draw.random() < 0.5,
            producer_id=producer_id,
            producer_epoch=max(self.character.lowest_epoch, producer.epoch - (self.draw.random() < 0.05)),
            coordinator_epoch=max(0, self.coordinator_epoch - self.draw.choice((0, 0, 0, 0, 1, 2))),
            timestamp=self.now_ms,
        )
        producer.in_transaction = False
        if self.draw.random() < 0.15:  # KIP-890: the epoch goes up with each transaction
            producer.epoch, producer.sequence, producer.sent = producer.epoch + 1, 0, []
        self._append(marker, origin="COORDINATOR")

    def old(self) -> None:
        magic = self.draw.randrange(2)
        codec = self.draw.choice(self.character.old_codecs)
        count = self.draw.randint(1, 5)
        self._append(
            OldMessages(
                magic=magic,
                records=count,
                value_bytes=self.draw.randint(0, 60),
                timestamp=self._timestamp(),
                keyed=self.draw.random() >= self.character.keyless,
                codec=codec,
                seed=self._seed(),
            ),
        )

    def replicate(self) -> None:
        batches: list[Batch | Marker] = []
        base = self.end + self.draw.choice((0, 0, 0, 0, 0, 3))
        for _ in range(self.draw.choice((1, 1, 2, 3)) if not self.character.fills_indexes else 1):
            if self.draw.random() < 0.2:
                self.epoch += 1
            batch = self._replicated(base)
            batches.append(batch)
            self.bounds.append(base)
            base += batch.records * (1 + batch.gap) if isinstance(batch, Batch) else 1
            base += self.draw.choice((0, 0, 0, 0, 2))
        damage = self.draw.random()
        if damage < 0.05:
            batches.reverse()
        self.operations.append(Replicate(batches=tuple(batches), leader_epoch=self.epoch - (damage > 0.95)))
        last = batches[-1]
        count = 1 + (last.records - 1) * (1 + last.gap) if isinstance(last, Batch) else 1
        self._ends_at(last.base_offset + count)

    def replicate_old(self) -> None:
        batch = OldMessages(
            magic=self.draw.randrange(2),
            records=self.draw.choice((1, 1, 2, 5)),
            value_bytes=self.draw.randint(0, 60),
            timestamp=self._timestamp(),
            step=self.draw.choice((0, 1, 7, -3)),
            keyed=self.draw.random() >= self.character.keyless,
            tombstones=self.character.tombstones,
            codec=self.draw.choice(self.character.old_codecs),
            base_offset=self.end,
            seed=self._seed(),
        )
        self.operations.append(Replicate(batches=(batch,), leader_epoch=self.epoch))
        self._ends_at(self.end + batch.records)

    def bad(self) -> None:
        """Append data that is refused, or whose end is ignored."""
        match self.draw.randrange(7):
            case 0:
                batch = self._batch(damage=self.draw.choice(("crc", "cut", "long", "short")))
                self.operations.append(Append(batches=(batch,), leader_epoch=self.epoch))
            case 1:
                self.operations.append(Append(batches=(self._batch(base_offset=5),), leader_epoch=self.epoch))
            case 2:
                self.operations.append(Append(batches=(self._batch(), self._batch()), leader_epoch=self.epoch))
            case 3:
                self.operations.append(Append(batches=(), leader_epoch=self.epoch))
            case 4 if not self.character.fills_indexes:
                damage = self.draw.choice(("crc", "cut", "long"))
                batches = (
                    self._batch(base_offset=self.end, leader_epoch=self.epoch, records=2),
                    self._batch(base_offset=self.end + 2, leader_epoch=self.epoch, damage=damage),
                )
                self.operations.append(Replicate(batches=batches, leader_epoch=self.epoch))
                if damage != "crc":
                    self.bounds.append(self.end)
                    self._ends_at(self.end + 2)
            case 5:
                below = self._batch(base_offset=max(0, self.end - 2), leader_epoch=self.epoch)
                self.operations.append(Replicate(batches=(below,), leader_epoch=self.epoch))
            case _:
                values = (self._batch(value_bytes=self.draw.randint(1900, 4000), codec="none"),)
                self.operations.append(Append(batches=values, leader_epoch=self.epoch))

    def _append(self, batch: Appended, origin: str = "CLIENT") -> None:
        self.operations.append(Append(batches=(batch,), leader_epoch=self.epoch, origin=origin))
        self._ends_at(self.end + (1 if isinstance(batch, Marker) else batch.records))

    def _ends_at(self, offset: int) -> None:
        self.end = offset
        self.bounds.append(offset)

    def _batch(self, **given: object) -> Batch:
        drawn: dict[str, object] = {
            "records": self.draw.choice((1, 1, 2, 3, 5, 12)),
            "value_bytes": self.draw.randint(0, self.draw.choice((10, 60, self.character.largest_value))),
            "timestamp": self._timestamp(),
            "step": self.draw.choice((0, 1, 1, 7, -3)),
            "keyed": self.draw.random() >= self.character.keyless,
            "headers": self.draw.random() < 0.2,
            "tombstones": self.character.tombstones,
            "codec": self.draw.choice(self.character.codecs),
            "seed": self._seed(),
        }
        return Batch(**(drawn | given))  # type: ignore[arg-type]

    def _of_producer(self, producer_id: int, *, transactional: bool) -> Batch:
        producer = self.producers[producer_id]
        chance = self.draw.random()
        if producer.in_transaction and not transactional and chance < 0.9:
            transactional = True
        if chance < 0.1 and producer.sent:  # a duplicate
            sequence, count = self.draw.choice(producer.sent)
        else:
            count = self.draw.choice((1, 1, 2, 4))
            if chance > 0.93:
                producer.epoch, producer.sequence, producer.sent = producer.epoch + 1, 0, []
            elif chance > 0.9:
                producer.sequence += 3
            sequence = producer.sequence
            producer.sequence += count
            producer.sent = [*producer.sent[-6:], (sequence, count)]
            producer.in_transaction = transactional
        return self._batch(
            records=count,
            producer_id=producer_id,
            producer_epoch=max(0, producer.epoch - (self.draw.random() < 0.04)),
            base_sequence=sequence,
            transactional=transactional,
        )

    def _replicated(self, base: int) -> Batch | Marker:
        chance = self.draw.random()
        open_ones = self._in_transaction()
        if chance < 0.2 and open_ones:
            producer_id = self.draw.choice(open_ones)
            self.producers[producer_id].in_transaction = False
            return Marker(
                committed=self.draw.random() < 0.5,
                producer_id=producer_id,
                producer_epoch=self.producers[producer_id].epoch,
                coordinator_epoch=self.coordinator_epoch,
                timestamp=self.now_ms,
                base_offset=base,
                leader_epoch=self.epoch,
            )
        if chance < 0.5:
            producer_id = self.draw.choice(_PRODUCERS)
            producer = self.producers[producer_id]
            producer.in_transaction = producer.in_transaction or self.draw.random() < 0.5
            count = self.draw.choice((1, 2, 4))
            sequence = producer.sequence
            producer.sequence += count
            return self._batch(
                base_offset=base,
                leader_epoch=self.epoch,
                records=count,
                producer_id=producer_id,
                producer_epoch=producer.epoch,
                base_sequence=sequence,
                transactional=producer.in_transaction,
            )
        return self._batch(base_offset=base, leader_epoch=self.epoch, gap=self.draw.choice((0, 0, 0, 2)))

    # --- offsets ---

    def watermark(self) -> None:
        known = [bound for bound in self.bounds if bound >= self.start]
        offset = self.end if self.draw.random() < 0.5 or not known else self.draw.choice(known)
        if self.draw.random() < 0.05:
            offset = self.end + 10
        if self.draw.random() < 0.5:
            self.operations.append(UpdateHighWatermark(offset))
            self.high = min(offset, self.end)
        else:
            self.operations.append(IncrementHighWatermark(offset))
            self.high = max(self.high, offset) if offset <= self.end else self.high

    def log_start(self) -> None:
        offset = self.draw.randint(self.start, max(self.start, self.high))
        if self.draw.random() < 0.05:
            offset = self.high + 1
        else:
            self.start = offset
        self.operations.append(IncrementLogStart(offset))

    def truncate(self) -> None:
        offset = self.draw.randint(max(0, self.start - 3), self.end + 2)
        if self.draw.random() < 0.5:
            offset = max(offset, self.end - 5)
        self.operations.append(TruncateTo(offset))
        self._cut(min(offset, self.end))

    def truncate_fully(self) -> None:
        offset = self.draw.randint(self.start, self.end + 20)
        self.operations.append(TruncateFully(offset, None))
        self._cut(offset)
        self.start = offset

    def _cut(self, offset: int) -> None:
        self.end = offset
        self.start, self.high = min(self.start, offset), min(self.high, offset)
        self.bounds = [*(bound for bound in self.bounds if bound < offset), offset]

    # --- reads ---

    def read(self) -> None:
        offset = self.draw.randint(max(0, self.start - 1), self.end)
        if self.draw.random() < 0.05:
            offset = self.end + 1
        sizes = (0, 1, 60, 300, 1000, _ALL_BYTES, _ALL_BYTES) if self.character.exact else (_ALL_BYTES,)
        self.operations.append(
            Read(
                offset=offset,
                max_bytes=self.draw.choice(sizes),
                isolation=self.draw.choice(("LOG_END", "HIGH_WATERMARK", "TXN_COMMITTED")),
                min_one_message=self.draw.random() < 0.7,
            )
        )

    def timestamp(self) -> None:
        near = self.now_ms + self.draw.randint(-2 * HOUR_MS, HOUR_MS)
        self.operations.append(
            OffsetForTimestamp(self.draw.choice((near, near, self._timestamp(), START_MS, -1, -2, -3, -4)))
        )

    def end_of_epoch(self) -> None:
        self.operations.append(EndOffsetForEpoch(self.draw.randint(0, self.epoch + 1)))

    def looked_at_producers(self) -> None:
        self.operations.append(Producers())

    # --- other events ---

    def roll(self) -> None:
        self.operations.append(Roll())

    def flush(self) -> None:
        self.operations.append(FlushNew() if self.draw.random() < 0.6 else Flush())

    def retention(self) -> None:
        if self.draw.random() < 0.3:
            key, values = self.draw.choice(
                (("retention.ms", (-1, 0, 1000, HOUR_MS, 24 * HOUR_MS)), ("retention.bytes", (-1, 0, 1000, 5000)))
            )
            self.operations.append(Configure(key, str(self.draw.choice(values))))
        self.operations.append(DeleteOldSegments())

    def clean(self) -> None:
        """Clean most of the data in most cases: no open transaction, all replicated, a new active segment."""
        if self.draw.random() < 0.6:
            for producer_id in self._in_transaction():
                self._end_transaction(producer_id)
        if self.draw.random() < 0.8:
            self.operations.append(UpdateHighWatermark(self.end))
            self.high = self.end
        if self.draw.random() < 0.8:
            self.roll()
        for _ in range(self.draw.choice((1, 1, 1, 2, 4))):
            self.operations.append(Clean(map_bytes=self.draw.choice(_MAPS), buffer_bytes=self.draw.choice(_BUFFERS)))

    def configure(self) -> None:
        is_cleaned = self.character.weights.get("clean", 0) > 0
        key, values = self.draw.choice(_SETTINGS if is_cleaned else (*_SETTINGS, _POLICIES))
        self.operations.append(Configure(key, self.draw.choice(values)))

    def remove_deleted(self) -> None:
        self.operations.append(RemoveDeleted())

    def new_epoch(self) -> None:
        self.epoch += self.draw.choice((1, 1, 2))
        wild = self.character.wild_epochs and self.draw.random() < 0.5
        self.operations.append(AssignEpoch(self.epoch, self.draw.randint(self.start, self.end + 3) if wild else None))

    def expire(self) -> None:
        if self.draw.random() < 0.5:
            self._wait(25 * HOUR_MS)
        self.operations.append(ExpireProducers())

    def clock(self) -> None:
        self._wait(self.draw.choice((1, 500, 60_000, HOUR_MS // 2, HOUR_MS + 1, -1000)))

    def reopen(self) -> None:
        self.operations.append(
            Reopen(self.draw.random() < 0.5 or self.character.fills_indexes or not self.character.kills)
        )

    def _wait(self, duration_ms: int) -> None:
        self.now_ms += duration_ms
        self.operations.append(Clock(self.now_ms))

    def _timestamp(self) -> int:
        return self.now_ms + self.draw.choice((0, 0, 0, 0, -1, -50, -HOUR_MS - 5, 20, self.character.latest_ms))

    def _seed(self) -> int:
        return self.draw.randrange(1000)


_METHODS: Mapping[str, Callable[[_Expected], None]] = {
    name: getattr(_Expected, {"epoch": "new_epoch", "producers": "looked_at_producers"}.get(name, name))
    for name in WEIGHTS
}


def draw_list(seed: int, characters: Sequence[Character], *, length: int = 60) -> Scenario:
    """Draw about ``length`` operations, the same for the same arguments. The characters take turns."""
    draw = random.Random(seed)
    character = characters[seed % len(characters)]
    expected = _Expected(draw, character)
    weights = {**WEIGHTS, **character.weights}
    while len(expected.operations) < length:
        (name,) = draw.choices(list(weights), list(weights.values()))
        _METHODS[name](expected)
    return Scenario(
        settings=tuple(character.settings.items()),
        now_ms=START_MS,
        operations=tuple(expected.operations),
        ends_cleanly=draw.random() < 0.6,
    )
