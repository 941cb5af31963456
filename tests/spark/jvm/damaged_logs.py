"""Log directories from a seed, for tests that compare two readers: every format and codec, most of them damaged.

``damaged_log`` writes ``t-0``. Its batches are valid, or have one wrong byte. The byte may lie under a CRC that was
computed afterwards, so that only decoding finds it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

from kernel.batch_bytes import batch, record
from legacy_messages import LOG_APPEND, Message, encode_set
from log_maker import data, mark_clean, marker, write_checkpoint
from tidelog.kernel import crc32c
from tidelog.record.compression import compress

V2_HEADER = 61
LARGE_BYTES = 1_300_000
"""A value of this size makes a batch larger than the JVM reader's buffer."""


def damaged_log(log_dir: Path, seed: int) -> None:
    chance = random.Random(seed)
    directory = log_dir / "t-0"
    directory.mkdir(parents=True)
    offset = 0
    for _ in range(chance.randrange(1, 4)):
        base, content = offset, b""
        for _ in range(chance.randrange(1, 12)):
            made, offset = _batch(offset, chance)
            content += _damaged(made, chance) if chance.random() < 0.15 else made
        if chance.random() < 0.15:
            content = _broken_anywhere(content, chance)
        (directory / f"{base:020d}.log").write_bytes(content)
    if chance.random() < 0.6:
        mark_clean(log_dir)
    elif chance.random() < 0.5:
        write_checkpoint(log_dir, "recovery-point-offset-checkpoint", {"t-0": offset})


def _batch(offset: int, chance: random.Random) -> tuple[bytes, int]:
    kinds: list[Callable[[int, random.Random], tuple[bytes, int]]] = [_plain, _plain, _compressed, _old, _transactional]
    made, count = chance.choice(kinds)(offset, chance)
    return made, offset + count + (chance.randrange(5) if chance.random() < 0.1 else 0)


def _records(chance: random.Random) -> list[bytes]:
    def part() -> bytes | None:
        size = chance.choice([0, 1, 5, 70, 300]) if chance.random() < 0.99 else LARGE_BYTES
        return None if chance.random() < 0.15 else chance.randbytes(size)

    def headers() -> list[tuple[bytes | None, bytes | None]]:
        return [(chance.choice([b"a", b"name", "é".encode(), b"\xff\xc3"]), part()) for _ in range(chance.randrange(3))]

    return [
        record(
            number,
            part(),
            part(),
            headers() if chance.random() < 0.3 else [],
            timestamp_delta=chance.choice([number, 0, -5, 1 << 33, 1 << 62]),
        )
        for number in range(chance.randrange(1, 30))
    ]


def _plain(offset: int, chance: random.Random) -> tuple[bytes, int]:
    records = _records(chance)
    fields = {"attributes": chance.choice([0, 0, 8]), "base_timestamp": chance.choice([1000, -1, 1_700_000_000_000])}
    made = batch(records, base_offset=offset, leader_epoch=3, base_sequence=chance.choice([-1, 7]), **fields)
    return made, len(records)


def _compressed(offset: int, chance: random.Random) -> tuple[bytes, int]:
    records = _records(chance)
    codec = chance.randrange(1, 5)
    payload = compress(codec, b"".join(records))
    if chance.random() < 0.1:
        payload = _broken_anywhere(payload, chance)
    fields = {"attributes": codec, "last_offset_delta": len(records) - 1, "record_count": len(records)}
    return batch(bytes(payload), base_offset=offset, **fields), len(records)


def _old(offset: int, chance: random.Random) -> tuple[bytes, int]:
    count = chance.randrange(1, 9)
    messages = [
        Message(offset + number, 5000 + number, chance.choice([None, b"k"]), chance.choice([None, b"", b"value" * 9]))
        for number in range(count)
    ]
    magic, codec = chance.randrange(2), chance.randrange(4)
    return encode_set(messages, magic, codec, LOG_APPEND if magic and codec and chance.random() < 0.3 else 0), count


def _transactional(offset: int, chance: random.Random) -> tuple[bytes, int]:
    producer = chance.randrange(3)
    if chance.random() < 0.4:
        return marker(offset, chance.random() < 0.5, producer_id=producer), 1
    return data(offset, 3, producer_id=producer), 3


def _damaged(made: bytes, chance: random.Random) -> bytes:
    """Break a byte after the header of a v2 batch, and correct its CRC."""
    if made[16] != 2 or len(made) <= V2_HEADER:
        return _broken_anywhere(made, chance)
    broken = bytearray(made)
    broken[chance.randrange(V2_HEADER, min(len(made), V2_HEADER + 200))] ^= 1 << chance.randrange(8)
    if chance.random() < 0.2:
        broken[57:61] = chance.choice([0, 1, 5, 2**31 - 1, 2**32 - 1]).to_bytes(4, "big")
    broken[17:21] = crc32c(bytes(broken[21:])).to_bytes(4, "big")
    return bytes(broken)


def _broken_anywhere(content: bytes, chance: random.Random) -> bytes:
    broken = bytearray(content)
    match chance.randrange(4):
        case 0:
            return bytes(broken[: chance.randrange(len(broken))])
        case 1:
            at = chance.randrange(len(broken))
            return bytes(broken[:at] + chance.randbytes(chance.randrange(1, 40)) + broken[at:])
        case _:
            broken[chance.randrange(len(broken))] ^= 1 << chance.randrange(8)
            return bytes(broken)
