"""Hostile appends: any bytes are refused with a TidelogError, or the stored records can be read."""

from __future__ import annotations

import zlib
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from append_cases import NOW, all_appends
from old_log_format import append_in_format
from tidelog.kernel import ColumnDecoder, crc32c, scan_batches
from tidelog.model import TidelogError
from tidelog.record.decode import decode_columns
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.append.append_validation import Validated, analyze
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import AppendOrigin

FIRST = 100
APPENDS = list(all_appends().values())
TARGETS = ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]


def append(data: bytes, rules: AppendRules, origin: AppendOrigin, magic: int = 2) -> Validated | None:
    """Return None if there is nothing to append, or if the append is refused."""
    try:
        if not len(scan_batches(data)):
            analyze(bytearray(data), rules, origin, now_ms=NOW)
            return None
        return append_in_format(bytearray(data), rules, magic, origin, now_ms=NOW, first_offset=FIRST, leader_epoch=5)
    except TidelogError:
        return None


def require_readable(found: Validated) -> None:
    table = scan_batches(found.batches)
    assert table.end_position == len(found.batches)
    assert table.summary.sound
    decoder = ColumnDecoder()
    offsets = [offset for part in decode_columns(found.batches, table, decoder) for offset in part.offset.tolist()]
    assert offsets == list(range(FIRST, found.last_offset + 1))


def with_right_crc(data: bytearray) -> bytes:
    """Correct the first batch's CRC, so that the checksum does not detect the flipped bits."""
    if len(data) > 26:
        end = 12 + int.from_bytes(data[8:12], "big")
        if data[16] == 2:
            data[17:21] = crc32c(memoryview(data)[21:end]).to_bytes(4, "big")
        else:
            data[12:16] = zlib.crc32(memoryview(data)[16:end]).to_bytes(4, "big")
    return bytes(data)


every_rule = {
    "target": st.sampled_from(TARGETS),
    "magic": st.sampled_from([2, 2, 2, 1, 0]),
    "settings_": st.sampled_from([{}, {"message_timestamp_type": "LogAppendTime"}, {"max_message_bytes": 120}]),
    "origin": st.sampled_from([AppendOrigin.CLIENT, AppendOrigin.COORDINATOR]),
}


@settings(max_examples=400, deadline=None)
@given(
    data=st.sampled_from(APPENDS),
    flips=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4),
    fixed=st.booleans(),
    **every_rule,
)
def test_flipped_appends(
    data: bytes,
    flips: list[tuple[int, int]],
    fixed: bool,
    target: str,
    magic: int,
    settings_: dict[str, Any],
    origin: AppendOrigin,
) -> None:
    flipped = bytearray(data)
    for at, value in flips:
        flipped[at % len(flipped)] = value
    rules = AppendRules.of(LogConfig(compression_type=target, **settings_))
    found = append(with_right_crc(flipped) if fixed else bytes(flipped), rules, origin, magic)
    if found is not None:
        require_readable(found)


@settings(max_examples=100, deadline=None)
@given(data=st.binary(max_size=200), **every_rule)
def test_any_bytes(data: bytes, target: str, magic: int, settings_: dict[str, Any], origin: AppendOrigin) -> None:
    rules = AppendRules.of(LogConfig(compression_type=target, **settings_))
    found = append(data, rules, origin, magic)
    if found is not None:
        require_readable(found)


@settings(max_examples=100, deadline=None)
@given(data=st.sampled_from(APPENDS), flips=st.lists(st.tuples(st.integers(0, 400), st.integers(0, 255)), max_size=4))
def test_the_raft_leaders(data: bytes, flips: list[tuple[int, int]]) -> None:
    flipped = bytearray(data)
    for at, value in flips:
        flipped[at % len(flipped)] = value
    append(with_right_crc(flipped), AppendRules.of(LogConfig()), AppendOrigin.RAFT_LEADER)
