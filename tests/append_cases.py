"""Valid and invalid appends of every format and codec, for tests of append validation and comparisons with Kafka."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from kernel.batch_bytes import batch, record
from legacy_messages import LOG_APPEND, Message, encode_set, encode_wrapper
from tidelog.model import Header, Record, TimestampType
from tidelog.record.attributes import CODECS, CONTROL_FLAG, TRANSACTIONAL_FLAG
from tidelog.record.build import build_batch
from tidelog.record.compression import compress

NOW = 1_700_000_000_000
LEGACY_CODECS = (0, 1, 2, 3)


def records(count: int = 3, key: bytes | None = b"k", timestamp: int = NOW - 5) -> list[Record]:
    return [Record(i, timestamp + i, TimestampType.CREATE, key, b"v" * i, ()) for i in range(count)]


def raw_batch(parts: Sequence[bytes], codec: int = 0, *, attributes: int = 0, **fields: int) -> bytes:
    """Return a v2 batch of encoded records. ``fields`` override fields of its header."""
    plain = b"".join(parts)
    values = {
        "record_count": len(parts),
        "last_offset_delta": len(parts) - 1,
        "base_timestamp": NOW,
        "max_timestamp": NOW + len(parts) - 1,
    }
    return batch(compress(codec, plain) if codec else plain, attributes=codec | attributes, **(values | fields))


def messages(count: int = 4, magic: int = 1, key: bytes | None = b"k", offset: int = 0) -> list[Message]:
    return [Message(offset + i, NOW - 9 + i if magic else -1, key, b"v%d" % i) for i in range(count)]


def marker(codec: int = 0) -> bytes:
    """Return an end-of-transaction marker."""
    control = record(0, b"\0\0\0\1", b"\0\0\0\0\0\0")
    flags = CONTROL_FLAG | TRANSACTIONAL_FLAG
    return raw_batch([control], codec, attributes=flags, producer_id=7, producer_epoch=1)


def current_appends(codec: int) -> dict[str, bytes]:
    """Return batches of format v2, compressed with the codec, by name."""
    pair = [record(0), record(1)]
    headers = (Header("h", b"x"), Header("g", None))
    found: dict[str, bytes | bytearray] = {
        "plain": build_batch(records(), codec=codec),
        "without key": build_batch([*records(), *records(2, None)], codec=codec),
        "old": build_batch(records(timestamp=NOW - 10**7), codec=codec),
        "without key, and from the future": build_batch(
            [*records(), *records(2, None), *records(2, b"k", NOW + 10**9)], codec=codec
        ),
        "idempotent": build_batch(records(), codec=codec, base_sequence=0, producer_id=7, producer_epoch=1),
        "without sequence": raw_batch([record(0)], codec, producer_id=7, producer_epoch=1),
        "transactional": build_batch(
            records(), codec=codec, base_sequence=5, transactional=True, producer_id=7, producer_epoch=1
        ),
        "control": marker(codec),
        "two batches": build_batch(records(), codec=codec) * 2,
        "wrong max timestamp": raw_batch(pair, codec, max_timestamp=NOW + 99),
        "log append time": raw_batch(pair, codec, attributes=LOG_APPEND),
        "log append time without time": raw_batch(pair, codec, attributes=LOG_APPEND, max_timestamp=-1),
        "inner offsets": raw_batch([record(0), record(2), record(1)], codec),
        "inner offsets below 0": raw_batch([record(0), record(-2), record(1)], codec),
        "too few records": raw_batch(pair, codec, record_count=3, last_offset_delta=2),
        "too many records": raw_batch(pair, codec, record_count=1, last_offset_delta=0),
        "no records": raw_batch([], codec, record_count=0, last_offset_delta=-1),
        "count 0": raw_batch(pair, codec, record_count=0, last_offset_delta=0),
        "range": raw_batch(pair, codec, last_offset_delta=4),
        "a record with a tail": raw_batch([record(0), record(1, extra=b"!")], codec),
        "without timestamps": build_batch([Record(0, -1, TimestampType.CREATE, b"k", b"v", ())], codec=codec),
        "timestamp below 0": raw_batch([record(0, timestamp_delta=-NOW - 5)], codec),
        "headers": build_batch([Record(0, NOW, TimestampType.CREATE, b"k", None, headers)], codec=codec),
        "header key that is no text": raw_batch([record(0, headers=[(b"\xff\xc3", b"x"), (b"h", None)])], codec),
        "producer id below -1": raw_batch(pair, codec, producer_id=-9),
        "undefined attributes": raw_batch(pair, codec, attributes=0x0180, max_timestamp=NOW + 5),
    }
    return {name: bytes(data) for name, data in found.items()}


def legacy_appends(magic: int, codec: int) -> dict[str, bytes]:
    """Return messages of format v0 or v1 by name. With a codec they are compressed in a wrapper message."""
    plain = messages(magic=magic)
    found = {
        "plain": encode_set(plain, magic, codec),
        "offsets": encode_set(messages(magic=magic, offset=90), magic, codec),
        "without key": encode_set([plain[0], plain[1]._replace(key=None)], magic, codec),
        "log append time": encode_set(plain, magic, codec, LOG_APPEND),
        "two": encode_set(plain, magic, codec) * 2,
    }
    if codec:
        inner = encode_set(plain, magic)
        flipped = inner[:-1] + bytes([inner[-1] ^ 1])
        found |= {
            "inner magic": encode_wrapper(3, NOW, encode_set(plain, 1 - magic), magic, codec),
            "inner CRC": encode_wrapper(3, NOW, flipped, magic, codec),
            "empty wrapper": encode_wrapper(3, NOW, b"", magic, codec),
            "nested": encode_wrapper(3, NOW, encode_set(plain, magic, codec), magic, codec),
            "wrapper's offset too low": encode_wrapper(1, NOW, inner, magic, codec),
            "wrapper's offset 0": encode_wrapper(0, NOW, inner, magic, codec),
        }
    return found


def drawn_append(random: Random) -> bytes:
    """Return a random valid append: any format, any codec, random records."""

    def part(longest: int) -> bytes | None:
        return None if random.random() < 0.2 else random.randbytes(random.randrange(longest))

    def timestamp() -> int:
        return random.choice(
            [-1, NOW, NOW - random.randrange(5000), NOW + random.randrange(5000), random.randrange(NOW)]
        )

    magic, count = random.choice([2, 2, 1, 0]), random.randrange(1, 9)
    if magic == 2:
        drawn = []
        for i in range(count):
            headers = tuple(Header(f"h{j}é", part(5)) for j in range(random.choice([0, 0, 0, 1, 3])))
            drawn.append(Record(i, timestamp(), TimestampType.CREATE, part(9), part(200), headers))
        return bytes(build_batch(drawn, codec=random.choice(list(CODECS))))
    sent = [Message(i, timestamp() if magic else -1, part(9), part(200)) for i in range(count)]
    return encode_set(sent, magic, random.choice(LEGACY_CODECS), random.choice([0, 0, LOG_APPEND]))


def all_appends() -> dict[str, bytes]:
    found = {
        f"v2 {name} {text}": data for codec, name in CODECS.items() for text, data in current_appends(codec).items()
    }
    for magic in (0, 1):
        for codec in LEGACY_CODECS:
            appends = legacy_appends(magic, codec)
            found |= {f"v{magic} {CODECS[codec]} {text}": data for text, data in appends.items()}
    one = messages(1)
    found["v1, then v2"] = encode_set(one, 1) + bytes(build_batch(records()))
    found["v0, then v1"] = encode_set(one, 0) + encode_set(one, 1)
    found["v2, then v1"] = bytes(build_batch(records())) + encode_set(one, 1)
    return found
