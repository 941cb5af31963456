"""Logs that mix formats v0, v1 and v2, as after a topic's format was raised, are decoded like any other."""

from __future__ import annotations

import itertools
import random
import struct
import zlib

import pytest

from kernel.twins import DecoderLimits
from legacy_messages import LOG_APPEND, Message, encode_set
from tidelog.kernel import ColumnDecoder, Stop, scan_batches
from tidelog.model import CorruptRecordError, Record, TimestampType, UnsupportedCompressionError
from tidelog.record.attributes import GZIP, LZ4, NONE, SNAPPY
from tidelog.record.build import build_batch
from tidelog.record.decode import decode_columns, iter_records

KINDS = [(magic, codec) for magic in (0, 1) for codec in (NONE, GZIP, SNAPPY, LZ4)]


def mixed_log() -> tuple[bytes, list[Record]]:
    parts: list[bytes] = []
    records: list[Record] = []
    offsets = itertools.count(2**31 - 20)
    for magic, codec in KINDS:
        messages = [
            Message(next(offsets), 1_000 + i, b"k" if i else None, None if i == 1 else b"v" * i) for i in range(4)
        ]
        parts.append(encode_set(messages, magic, codec))
        type_ = TimestampType.CREATE if magic else TimestampType.NONE
        records += [Record(m.offset, m.timestamp if magic else -1, type_, m.key, m.value) for m in messages]
        batch = [Record(next(offsets), 5, TimestampType.CREATE, None, b"v2")]
        parts.append(bytes(build_batch(batch, base_offset=batch[0].offset, codec=codec)))
        records += batch
    return b"".join(parts), records


@pytest.mark.parametrize("limits", [{}, {"max_rows": 3}, {"limit_bytes": 120}], ids=str)
def test_mixed_logs(limits: DecoderLimits) -> None:
    data, records = mixed_log()
    table = scan_batches(data)
    assert table.stop is Stop.END
    parts = list(decode_columns(data, table, ColumnDecoder(**limits)))
    assert [record for columns in parts for record in iter_records(columns)] == records
    assert len(parts) > 1 or not limits


def test_a_part_of_a_mixed_log() -> None:
    data, records = mixed_log()
    table = scan_batches(data)
    for start, end in ((records[3].offset, records[30].offset), (records[6].offset, records[7].offset)):
        decoder = ColumnDecoder(start_offset=start, end_offset=end, headers=False, keys=False)
        read = [r for columns in decode_columns(data, table, decoder) for r in iter_records(columns)]
        assert read == [r._replace(key=None) for r in records if start <= r.offset < end]


@pytest.mark.parametrize(("magic", "codec"), KINDS)
def test_flipped_bits_under_a_right_checksum(magic: int, codec: int) -> None:
    rng = random.Random(magic * 8 + codec)
    entry = encode_set(
        [Message(i, 5, b"key", b"value" * i) for i in range(12)], magic, codec, LOG_APPEND if magic else 0
    )
    first = 12 + int.from_bytes(entry[8:12], "big")
    refused = 0
    for _ in range(1_000):
        spoilt = bytearray(entry[:first])
        spoilt[rng.randrange(18, first)] ^= 1 << rng.randrange(8)
        struct.pack_into(">I", spoilt, 12, zlib.crc32(spoilt[16:]))
        try:
            for columns in decode_columns(spoilt, scan_batches(spoilt), ColumnDecoder()):
                assert len(list(iter_records(columns))) <= 12
        except (CorruptRecordError, UnsupportedCompressionError):
            refused += 1
    assert refused or not codec


def test_wrong_checksums_are_errors() -> None:
    data, _ = mixed_log()
    table = scan_batches(data)
    for row in table.rows():
        spoilt = bytearray(data[row.position : row.position + row.size])
        spoilt[-1] ^= 0x10
        with pytest.raises(CorruptRecordError, match="checksum"):
            list(decode_columns(spoilt, scan_batches(spoilt), ColumnDecoder()))
