"""Batches of a few KB that decompress to hundreds of MB: the broker limits how much it decompresses."""

from __future__ import annotations

import struct
import tracemalloc
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
import zstandard

from log_maker import batch, varint
from server.data.data_home import WITH_NAMES, codes, data_home, records
from server.harness import KEEPING
from tidelog.kernel import crc32c
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.record.attributes import GZIP, ZSTD
from tidelog.record.compression import compress
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.state.log_config import LogConfig

_HEADER_BYTES, _COVERED_AT, _ATTRIBUTES = 61, 21, 2
MIB = 1024 * 1024


@cache
def bomb(codec: int, mib: int) -> bytes:
    """Return a compressed batch with one valid record of ``mib`` MiB of zeros."""
    value = mib * MIB
    body = b"\0\0\0" + b"\1" + varint(value)
    record = varint(len(body) + value + 1) + body + bytes(value) + b"\0"
    packed = zstandard.ZstdCompressor().compress(record) if codec == ZSTD else compress(codec, record, 9)
    covered = struct.pack(">h", codec) + batch(0, [b""])[_COVERED_AT + _ATTRIBUTES : _HEADER_BYTES] + packed
    return struct.pack(">qiiBI", 0, len(covered) + 9, 0, 2, crc32c(covered)) + covered


@pytest.mark.parametrize("codec", [GZIP, ZSTD])
@pytest.mark.parametrize("count", [1, 3])
def test_bombs_are_refused_before_they_are_open(codec: int, count: int, tmp_path: Path) -> None:
    """Clients send batches of 400 MiB at once. The broker refuses each, and uses less than 280 MiB for it."""
    small, large = bomb(codec, 4), bomb(codec, 400)
    assert len(large) < 1_000_000
    with ExitStack() as stack:
        settings = {key.replace(".", "_"): text for key, text in KEEPING.items()}
        home = stack.enter_context(data_home(tmp_path, **settings))
        clients = [stack.enter_context(home.home.client()) for _ in range(count)]
        home.create()
        assert home.produce(small).error_code == ErrorCode.NONE
        tracemalloc.start()
        try:
            sent = [(client, home.send_produce(large, client=client)) for client in clients]
            responses = [client.receive(ApiKey.PRODUCE, WITH_NAMES, number) for client, number in sent]
            peak_bytes = tracemalloc.get_traced_memory()[1]
        finally:
            tracemalloc.stop()
        parts = [response.responses[0].partition_responses[0] for response in responses]
        assert codes(parts) == [ErrorCode.MESSAGE_TOO_LARGE] * count
        assert peak_bytes < count * 280 * MIB
        assert home.produce(records(b"others are served")).base_offset == 1


def test_how_much_is_opened_follows_from_the_largest_batch() -> None:
    assert AppendRules.of(LogConfig()).max_plain_bytes == 128 * 1_048_588
    assert AppendRules.of(LogConfig(max_message_bytes=1000)).max_plain_bytes == 128 * MIB
    assert AppendRules.of(LogConfig(max_message_bytes=64 * MIB)).max_plain_bytes == 1024 * MIB
