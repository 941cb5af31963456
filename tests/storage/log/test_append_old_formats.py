"""Appends to logs that store format v0 or v1: same format, up-conversion and down-conversion, with each codec."""

from __future__ import annotations

from typing import Any

import pytest

from append_cases import LEGACY_CODECS, NOW, messages, raw_batch, records
from kernel.batch_bytes import record
from legacy_messages import LOG_APPEND, Message, encode_set, encode_wrapper
from old_log_format import append_in_format
from tidelog.kernel import scan_batches
from tidelog.model import (
    Header,
    InvalidRecordError,
    InvalidTimestampError,
    Record,
    RecordTooLargeError,
    TidelogError,
    TimestampType,
    UnsupportedCompressionError,
    UnsupportedFormatError,
)
from tidelog.record.attributes import CODECS, codec_number
from tidelog.record.build import build_batch
from tidelog.record.legacy import LegacyMessage, read_messages
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.append.append_validation import Validated
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import AppendOrigin

FIRST = 1234
LATER = NOW + 8
TIMES = [NOW - 9 + i for i in range(4)]
both_formats = pytest.mark.parametrize("magic", [0, 1])
every_codec = pytest.mark.parametrize("codec", LEGACY_CODECS)
every_target = pytest.mark.parametrize("target", ["uncompressed", "gzip", "snappy", "lz4"])


def append(data: bytes, magic: int, **settings: Any) -> Validated:
    rules, origin = AppendRules.of(LogConfig(**settings)), AppendOrigin.CLIENT
    return append_in_format(
        bytearray(data), rules, magic, origin, now_ms=NOW, first_offset=FIRST, leader_epoch=5, append_time_ms=LATER
    )


def stored(found: Validated) -> list[LegacyMessage]:
    table = scan_batches(found.batches)
    assert table.end_position == len(found.batches)
    assert table.summary.crcs_ok
    view = memoryview(found.batches)
    return [one for row in table.rows() for one in read_messages(view[row.position : row.position + row.size])]


def seen(found: Validated) -> list[tuple[int, int, bytes | None]]:
    """Return offset, timestamp and value of each message."""
    return [(one.offset, one.timestamp, None if one.value is None else bytes(one.value)) for one in stored(found)]


def wanted(magic: int, times: list[int]) -> list[tuple[int, int, bytes | None]]:
    return [(FIRST + i, time if magic else -1, b"v%d" % i) for i, time in enumerate(times)]


def refused(data: bytes, magic: int, kind: type[TidelogError], **settings: Any) -> TidelogError:
    with pytest.raises(TidelogError) as caught:
        append(data, magic, **settings)
    assert type(caught.value) is kind
    return caught.value


@both_formats
@every_codec
@every_target
def test_within_a_format(magic: int, codec: int, target: str) -> None:
    """Offsets are absolute in v0, also inside a wrapper. In v1 they are relative to the wrapper's offset."""
    found = append(encode_set(messages(magic=magic, offset=90), magic, codec), magic, compression_type=target)
    assert seen(found) == wanted(magic, TIMES)
    assert (found.first_offset, found.last_offset) == (FIRST, FIRST + 3)
    assert (found.max_timestamp, found.offset_of_max_timestamp) == ((TIMES[3], FIRST + 3) if magic else (-1, -1))
    table = scan_batches(found.batches)
    to = 0 if target == "uncompressed" else codec_number(target)
    assert table.attributes.tolist() == ([0] * 4 if to == 0 else [to])
    assert set(table.magic.tolist()) == {magic}


@both_formats
def test_plain_messages_change_in_their_offset_only(magic: int) -> None:
    data = encode_set(messages(magic=magic), magic)
    found = append(data, magic)
    assert bytes(found.batches) == encode_set(messages(magic=magic, offset=FIRST), magic)
    assert found.stats == (0, 0)


@pytest.mark.parametrize("codec", LEGACY_CODECS[1:])
def test_a_v1_wrapper_stays_where_its_offsets_are_right(codec: int) -> None:
    data = encode_set(messages(), 1, codec)
    kept = append(data, 1)
    assert (bytes(kept.batches[18:]), seen(kept)) == (data[18:], wanted(1, TIMES))
    assert kept.stats.converted_records == 0
    for offsets in ([0, 2, 4, 6], [0, 0, 0, 0]):  # some clients counted in this way
        inner = [one._replace(offset=offset) for one, offset in zip(messages(), offsets, strict=True)]
        fixed = append(encode_wrapper(offsets[-1], TIMES[3], encode_set(inner, 1), 1, codec), 1)
        assert seen(fixed) == wanted(1, TIMES)
        assert fixed.stats.converted_records == 4


@every_codec
@every_target
def test_up_from_v0_to_v1(codec: int, target: str) -> None:
    """Messages of v0 have no timestamp, so they have none in v1 either."""
    found = append(encode_set(messages(magic=0), 0, codec), 1, compression_type=target)
    assert seen(found) == wanted(1, [-1] * 4)
    assert (found.max_timestamp, found.offset_of_max_timestamp) == (-1, -1)
    assert {one.timestamp_type for one in stored(found)} == {TimestampType.CREATE}


@every_codec
@every_target
def test_down_from_v1_to_v0(codec: int, target: str) -> None:
    found = append(encode_set(messages(), 1, codec), 0, compression_type=target)
    assert seen(found) == wanted(0, TIMES)


@both_formats
@every_codec
@every_target
def test_down_from_v2(magic: int, codec: int, target: str) -> None:
    sent = [Record(i, time, TimestampType.CREATE, b"k", b"v%d" % i, ()) for i, time in enumerate(TIMES)]
    found = append(bytes(build_batch(sent, codec=codec)), magic, compression_type=target)
    assert seen(found) == wanted(magic, TIMES)
    assert {None if one.key is None else bytes(one.key) for one in stored(found)} == {b"k"}
    assert found.stats.converted_records == 4


@both_formats
@every_codec
def test_what_the_old_formats_do_not_have(magic: int, codec: int) -> None:
    producer: dict[str, Any] = {"producer_id": 7, "producer_epoch": 1, "base_sequence": 0}
    for transactional in (False, True):
        data = bytes(build_batch(records(), codec=codec, transactional=transactional, **producer))
        assert refused(data, magic, UnsupportedFormatError).code == 43
    headers = bytes(build_batch([Record(0, NOW, TimestampType.CREATE, None, b"", (Header("h", b""),))], codec=codec))
    refused(headers, magic, UnsupportedFormatError)
    refused(bytes(build_batch(records(), codec=codec)), magic, UnsupportedCompressionError, compression_type="zstd")
    refused(bytes(build_batch(records(), codec="zstd")), magic, UnsupportedCompressionError)


@both_formats
@every_codec
@every_target
@pytest.mark.parametrize("source", [0, 1, 2])
def test_log_append_time(source: int, magic: int, codec: int, target: str) -> None:
    if source < 2:
        data = encode_set(messages(magic=source), source, codec)
    else:
        data = bytes(build_batch(records(4), codec=codec))
    found = append(data, magic, message_timestamp_type="LogAppendTime", compression_type=target)
    back = stored(found)
    assert [one.offset for one in back] == [FIRST, FIRST + 1, FIRST + 2, FIRST + 3]
    assert {one.timestamp for one in back} == {LATER if magic else -1}
    assert {one.timestamp_type for one in back} == {TimestampType.LOG_APPEND if magic else TimestampType.NONE}
    assert found.log_append_time == LATER
    if magic:
        assert found.offset_of_max_timestamp == (FIRST if target == "uncompressed" else FIRST + 3)


@every_codec
def test_producers_do_not_set_log_append_time(codec: int) -> None:
    data = encode_set(messages(), 1, codec, LOG_APPEND)
    found = append(data, 1)  # validated as create time, then cleared
    assert {one.timestamp_type for one in stored(found)} == {TimestampType.CREATE}
    refused(data, 1, InvalidTimestampError, message_timestamp_type="LogAppendTime")


@every_codec
def test_create_times_too_far_from_the_clock(codec: int) -> None:
    sent = [Message(0, NOW, None, b""), Message(1, NOW + 2000, None, b""), Message(2, NOW - 2000, None, b"")]
    for limit in ("before", "after"):
        refused(encode_set(sent, 1, codec), 1, InvalidTimestampError, **{f"message_timestamp_{limit}_max_ms": 1000})


@both_formats
@every_codec
def test_keys_and_sizes(magic: int, codec: int) -> None:
    data = encode_set(messages(magic=magic, key=None), magic, codec)
    refused(data, magic, InvalidRecordError, cleanup_policy=frozenset({"compact"}))
    refused(
        encode_set(messages(40, magic), magic),
        magic,
        RecordTooLargeError,
        max_message_bytes=80,
        compression_type="gzip",
    )


@both_formats
def test_many_messages_are_many_batches_until_they_are_compressed(magic: int) -> None:
    twice = encode_set(messages(magic=magic), magic) * 2
    assert len(scan_batches(append(twice, magic).batches)) == 8
    assert len(scan_batches(append(twice, magic, compression_type="gzip").batches)) == 1
    for codec in LEGACY_CODECS[1:]:
        refused(encode_set(messages(magic=magic), magic, codec) * 2, magic, InvalidRecordError)


def test_inner_offsets_of_v2_do_not_matter_on_the_way_down() -> None:
    parts = [record(0), record(2), record(1)]
    for codec in CODECS:
        if codec < 4:
            found = append(raw_batch(parts, codec), 1)
            assert [one.offset for one in stored(found)] == [FIRST, FIRST + 1, FIRST + 2]
