"""Builder of partition directories for tests of readers. It writes each byte without tidelog's encoders and writers.

Batches are v2 and uncompressed. ``write_segment`` writes the ``.log`` and both indexes as a broker leaves them after a
clean shutdown. An index gets an entry each time more than ``interval_bytes`` have passed.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from pathlib import Path

from tidelog.kernel import crc32c

HEADER_BYTES = 61
TRANSACTIONAL, CONTROL = 0x10, 0x20
BASE_TIME = 1_700_000_000_000


def varint(number: int) -> bytes:
    rest = (number << 1) ^ (number >> 63)
    out = bytearray()
    while rest >= 0x80:
        out.append(rest & 0x7F | 0x80)
        rest >>= 7
    return bytes(out) + bytes([rest])


def string(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data


def batch(
    base_offset: int,
    values: Sequence[bytes | None],
    *,
    key: bytes | None = b"k",
    timestamp: int = BASE_TIME,
    attributes: int = 0,
    producer_id: int = -1,
    producer_epoch: int = 0,
    sequence: int = 0,
    epoch: int = 0,
) -> bytes:
    """Build a batch with a record for each value. Timestamps are 1 ms apart; ``epoch`` is the leader epoch."""
    records = b""
    for number, value in enumerate(values):
        body = b"\0" + varint(number) + varint(number) + string(key) + string(value) + varint(0)
        records += varint(len(body)) + body
    last = len(values) - 1
    producer = (producer_id, producer_epoch, sequence) if producer_id >= 0 else (-1, -1, 0)
    fields = (attributes, last, timestamp, timestamp + last, *producer, len(values))
    covered = struct.pack(">hiqqqhii", *fields) + records
    rest = struct.pack(">iBI", epoch, 2, crc32c(covered)) + covered
    return struct.pack(">qi", base_offset, len(rest)) + rest


def data(base_offset: int, count: int = 1, *, producer_id: int = 7, timestamp: int = BASE_TIME) -> bytes:
    """Build a batch of transactional records."""
    values = [b"value-%d" % (base_offset + number) for number in range(count)]
    return batch(base_offset, values, attributes=TRANSACTIONAL, producer_id=producer_id, timestamp=timestamp)


def marker(base_offset: int, committed: bool, *, producer_id: int = 7, timestamp: int = BASE_TIME) -> bytes:
    return batch(
        base_offset,
        [struct.pack(">hi", 0, 0)],
        key=struct.pack(">hh", 0, int(committed)),
        attributes=TRANSACTIONAL | CONTROL,
        producer_id=producer_id,
        timestamp=timestamp,
    )


def plain(base_offset: int, count: int = 10, *, size: int = 20, timestamp: int | None = None) -> bytes:
    """Build records whose value is their offset. By default a record's timestamp is BASE_TIME plus its offset."""
    values = [b"%0*d" % (size, base_offset + number) for number in range(count)]
    return batch(base_offset, values, timestamp=BASE_TIME + base_offset if timestamp is None else timestamp)


def write_segment(
    directory: Path, base_offset: int, batches: Sequence[bytes], *, interval_bytes: int = 0, suffix: str = ""
) -> Path:
    """Write the files of a segment and return the path of its ``.log``."""
    directory.mkdir(parents=True, exist_ok=True)
    index, times, position, since, top, top_at, top_written = b"", b"", 0, 0, -1, base_offset, -1
    for content in batches:
        first = struct.unpack_from(">q", content)[0]
        last = first + struct.unpack_from(">i", content, 23)[0]
        largest = struct.unpack_from(">q", content, 35)[0]
        if largest > top:
            top, top_at = largest, last
        if since > interval_bytes:
            index += struct.pack(">ii", last - base_offset, position)
            if top > top_written:
                times += struct.pack(">qi", top, top_at - base_offset)
                top_written = top
            since = 0
        position += len(content)
        since += len(content)
    if top > top_written:
        times += struct.pack(">qi", top, top_at - base_offset)
    stem = directory / f"{base_offset:020d}"
    for extension, content in ((".log", b"".join(batches)), (".index", index), (".timeindex", times)):
        stem.with_name(stem.name + extension + suffix).write_bytes(content)
    return stem.with_name(stem.name + ".log" + suffix)


def write_checkpoint(directory: Path, name: str, offsets: dict[str, int]) -> None:
    """Write ``offsets`` (by partition directory name) to a checkpoint file."""
    lines = [f"{partition.rpartition('-')[0]} {partition.rpartition('-')[2]} {at}" for partition, at in offsets.items()]
    (directory / name).write_text("\n".join(["0", str(len(lines)), *lines]) + "\n")


def mark_clean(directory: Path) -> None:
    (directory / ".kafka_cleanshutdown").write_text('{"version":0,"brokerEpoch":1}')
