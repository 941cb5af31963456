"""Batches of a few KB that decompress to hundreds of MB: the broker limits how much it decompresses."""

from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import pytest
import zstandard

from log_maker import batch, crc32c, varint
from server.data.data_home import data_home, records
from server.harness import KEEPING
from tidelog.protocol.errors import ErrorCode
from tidelog.record.attributes import GZIP, ZSTD
from tidelog.record.compression import compress
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.config import LogConfig

_HEADER_BYTES, _COVERED_AT, _ATTRIBUTES = 61, 21, 2
MIB = 1024 * 1024


def bomb(codec: int, mib: int) -> bytes:
    """Return a compressed batch with one valid record of ``mib`` MiB of zeros."""
    value = mib * MIB
    body = b"\0\0\0" + b"\1" + varint(value)
    record = varint(len(body) + value + 1) + body + bytes(value) + b"\0"
    packed = zstandard.ZstdCompressor().compress(record) if codec == ZSTD else compress(codec, record, 1)
    covered = struct.pack(">h", codec) + batch(0, [b""])[_COVERED_AT + _ATTRIBUTES : _HEADER_BYTES] + packed
    return struct.pack(">qiiBI", 0, len(covered) + 9, 0, 2, crc32c(covered)) + covered


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_one_is_refused_before_it_is_open(codec: int, tmp_path: Path) -> None:
    """The broker refuses a batch that decompresses to 160 MiB while it uses less than 280 MiB."""
    small, large = bomb(codec, 4), bomb(codec, 160)
    assert len(large) < 1_000_000
    with data_home(tmp_path, **{key.replace(".", "_"): text for key, text in KEEPING.items()}) as home:
        home.create()
        assert home.produce(small).error_code == ErrorCode.NONE
        tracemalloc.start()
        try:
            assert home.produce(large).error_code == ErrorCode.MESSAGE_TOO_LARGE
            assert tracemalloc.get_traced_memory()[1] < 280 * MIB
        finally:
            tracemalloc.stop()
        assert home.produce(records(b"others are served")).base_offset == 1


def test_how_much_is_opened_follows_from_the_largest_batch() -> None:
    assert AppendRules.of(LogConfig()).max_plain_bytes == 128 * 1_048_588
    assert AppendRules.of(LogConfig(max_message_bytes=1000)).max_plain_bytes == 128 * MIB
    assert AppendRules.of(LogConfig(max_message_bytes=64 * MIB)).max_plain_bytes == 1024 * MIB
