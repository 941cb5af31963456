"""Batches of few KB that open to hundreds of MB: what a producer may make the broker open."""

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
    """One sound record of so many zeros."""
    value = mib * MIB
    body = b"\0\0\0" + b"\1" + varint(value)
    record = varint(len(body) + value + 1) + body + bytes(value) + b"\0"
    packed = zstandard.ZstdCompressor().compress(record) if codec == ZSTD else compress(codec, record, 1)
    covered = struct.pack(">h", codec) + batch(0, [b""])[_COVERED_AT + _ATTRIBUTES : _HEADER_BYTES] + packed
    return struct.pack(">qiiBI", 0, len(covered) + 9, 0, 2, crc32c(covered)) + covered


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
def test_one_is_refused_before_it_is_open(codec: int, tmp_path: Path) -> None:
    """And so is a larger one that ``num.io.threads`` would open side by side."""
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
