"""Appended data as readable values that give the same bytes each time: batches, markers, old messages.

Offsets and epochs are the sender's: 0 and -1 from a client, the leader's own in a fetch. ``damage`` names the change
that the bytes suffer.
"""

from __future__ import annotations

import random
import struct
from dataclasses import dataclass

from legacy_messages import Message, encode_set
from tidelog.model import Header, Record, TimestampType
from tidelog.record.build import build_batch, build_end_transaction_batch
from tidelog.record.control import EndTransactionMarker

_LENGTH = struct.Struct(">i")
_LENGTH_POSITION = 8
_ATTRIBUTES_POSITION = 22
_PREFIX_BYTES = 12
_LETTERS = b"abcdefghijklmnop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """A v2 batch of ``records`` records, ``step`` ms apart, with keys and values drawn from ``seed``."""

    records: int = 1
    value_bytes: int = 10
    timestamp: int = 0
    step: int = 1
    keyed: bool = True
    tombstones: float = 0.05
    """The share of records without a value."""
    headers: bool = False
    codec: str = "none"
    base_offset: int = 0
    gap: int = 0
    """The number of offsets left out after each record, as by a cleaner."""
    leader_epoch: int = -1
    producer_id: int = -1
    producer_epoch: int = -1
    base_sequence: int = -1
    transactional: bool = False
    seed: int = 0
    damage: str = ""
    """``crc`` flips a byte, ``cut`` removes the end, and ``long`` and ``short`` change the length field."""

    def to_bytes(self) -> bytes:
        draw = random.Random(self.seed)
        records = [
            Record(
                self.base_offset + number * (1 + self.gap),
                self.timestamp + number * self.step,
                TimestampType.CREATE,
                b"key-%d" % draw.randrange(20) if self.keyed else None,
                bytes(draw.choices(_LETTERS, k=self.value_bytes)) if draw.random() < 1 - self.tombstones else None,
                (Header("h", b"1"), Header("none", None)) if self.headers else (),
            )
            for number in range(self.records)
        ]
        built = build_batch(
            records,
            base_offset=self.base_offset,
            keep_offsets=True,
            codec=self.codec,
            leader_epoch=self.leader_epoch,
            producer_id=self.producer_id,
            producer_epoch=self.producer_epoch,
            base_sequence=self.base_sequence,
            transactional=self.transactional,
        )
        return damaged(built, self.damage)


@dataclass(frozen=True, slots=True, kw_only=True)
class Marker:
    """The control batch that ends a transaction."""

    committed: bool
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int = 0
    timestamp: int = 0
    base_offset: int = 0
    leader_epoch: int = -1

    def to_bytes(self) -> bytes:
        marker = EndTransactionMarker(committed=self.committed, coordinator_epoch=self.coordinator_epoch)
        return bytes(
            build_end_transaction_batch(
                marker,
                base_offset=self.base_offset,
                timestamp=self.timestamp,
                producer_id=self.producer_id,
                producer_epoch=self.producer_epoch,
                leader_epoch=self.leader_epoch,
            )
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class OldMessages:
    """Messages of format v0 or v1, in one wrapper if there is a codec."""

    magic: int
    records: int = 1
    value_bytes: int = 10
    timestamp: int = 0
    step: int = 1
    keyed: bool = True
    tombstones: float = 0.0
    codec: int = 0
    base_offset: int = 0
    seed: int = 0

    def to_bytes(self) -> bytes:
        draw = random.Random(self.seed)
        messages = [
            Message(
                self.base_offset + number,
                self.timestamp + number * self.step,
                b"key-%d" % draw.randrange(20) if self.keyed else None,
                bytes(draw.choices(_LETTERS, k=self.value_bytes)) if draw.random() >= self.tombstones else None,
            )
            for number in range(self.records)
        ]
        return encode_set(messages, self.magic, self.codec)


Appended = Batch | Marker | OldMessages


def damaged(batch: bytearray, damage: str) -> bytes:
    match damage:
        case "":
            pass
        case "crc":
            batch[_ATTRIBUTES_POSITION + 1 + len(batch) // 3] ^= 0x55
        case "cut":
            del batch[-7:]
        case "long":
            _LENGTH.pack_into(batch, _LENGTH_POSITION, len(batch) - _PREFIX_BYTES + 5)
        case "short":
            _LENGTH.pack_into(batch, _LENGTH_POSITION, 40)
        case _:
            raise ValueError(damage)
    return bytes(batch)
