"""Messages of v0 and v1: alone, in sets, and in sets that break the rules."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legacy_messages import LOG_APPEND, Message, encode_message, encode_set, encode_wrapper
from tidelog.model import CorruptRecordError, TimestampType, UnsupportedCompressionError
from tidelog.record.attributes import CODECS, GZIP, LZ4, NONE, SNAPPY, ZSTD
from tidelog.record.compression import compress
from tidelog.record.legacy import LegacyMessage, read_messages

WRAPPING = [GZIP, SNAPPY, LZ4]


def read(data: bytes) -> list[LegacyMessage]:
    """Return all messages of a log's bytes."""
    view = memoryview(data)
    messages = []
    while view:
        end = 12 + int.from_bytes(view[8:12], "big")
        messages += read_messages(view[:end])
        view = view[end:]
    return messages


def seen(messages: list[LegacyMessage]) -> list[Message]:
    def plain(field: memoryview | None) -> bytes | None:
        return None if field is None else bytes(field)

    return [Message(m.offset, m.timestamp, plain(m.key), plain(m.value)) for m in messages]


@st.composite
def message_sets(draw: st.DrawFn) -> list[Message]:
    field = st.none() | st.binary(max_size=50)
    offset = draw(st.integers(0, 2**40))
    messages = []
    for _ in range(draw(st.integers(1, 8))):
        messages.append(Message(offset, draw(st.integers(0, 2**42)), draw(field), draw(field)))
        offset += draw(st.integers(1, 1_000))
    return messages


@given(messages=message_sets(), magic=st.sampled_from([0, 1]), codec=st.sampled_from([NONE, *WRAPPING]))
def test_sets_come_back(messages: list[Message], magic: int, codec: int) -> None:
    read_back = read(encode_set(messages, magic, codec))
    assert seen(read_back) == [m._replace(timestamp=m.timestamp if magic else -1) for m in messages]
    assert {m.timestamp_type for m in read_back} == {TimestampType.CREATE if magic else TimestampType.NONE}


@pytest.mark.parametrize("codec", [NONE, *WRAPPING])
def test_log_append_time_is_the_wrappers(codec: int) -> None:
    messages = [Message(5, 100, b"k", b"v"), Message(6, 300, None, b"w")]
    read_back = read(encode_set(messages, 1, codec, LOG_APPEND))
    assert {m.timestamp_type for m in read_back} == {TimestampType.LOG_APPEND}
    assert [m.timestamp for m in read_back] == ([300, 300] if codec else [100, 300])


def test_offset_zero_on_the_wrapper_leaves_inner_offsets_as_they_are() -> None:
    inner = encode_set([Message(0, 1, None, b"a"), Message(1, 1, None, b"b")], 1)
    assert [m.offset for m in read(encode_wrapper(0, 1, inner, 1, GZIP))] == [0, 1]


def test_inner_offsets_with_gaps_count_from_the_wrappers() -> None:
    inner = encode_set([Message(3, 1, None, b"a"), Message(7, 1, None, b"b")], 1)
    assert [m.offset for m in read(encode_wrapper(107, 1, inner, 1, GZIP))] == [103, 107]


def test_a_set_ends_at_a_message_that_is_cut_off() -> None:
    inner = encode_set([Message(0, 1, None, b"a"), Message(1, 1, None, b"b")], 0)
    for cut in (1, 10, 25):
        assert [bytes(m.value or b"") for m in read(encode_wrapper(1, 1, inner[:-cut], 0, GZIP))] == [b"a"]


def broken_wrappers() -> dict[str, bytes]:
    good = Message(0, 1, b"k", b"v")
    inner = encode_message(good, 1)
    bad_crc = bytearray(inner)
    bad_crc[12] ^= 1
    return {
        "no value": encode_message(Message(1, 1, None, None), 1, GZIP),
        "holds no": encode_wrapper(1, 1, b"", 1, GZIP),
        "holds no messages": encode_wrapper(1, 1, inner[:20], 1, GZIP),
        "compressed itself": encode_wrapper(1, 1, encode_set([good], 1, GZIP), 1, SNAPPY),
        "less than the": encode_wrapper(1, 1, encode_message(good._replace(offset=5), 1), 1, GZIP),
        "CRC of a message inside": encode_wrapper(1, 1, bytes(bad_crc), 1, GZIP),
        "declares 13 bytes": encode_wrapper(1, 1, inner[:8] + (13).to_bytes(4, "big") + inner[12:], 1, GZIP),
        "cannot be compressed with zstd": encode_message(Message(1, 1, None, compress(ZSTD, inner)), 1, ZSTD),
    }


@pytest.mark.parametrize("reason", broken_wrappers())
def test_broken_wrappers(reason: str) -> None:
    with pytest.raises(CorruptRecordError, match=reason):
        read(broken_wrappers()[reason])


@pytest.mark.parametrize("size", [26, 33])
def test_a_message_of_v1_without_room_for_its_timestamp(size: int) -> None:
    message = bytearray(encode_message(Message(0, 1, b"key", b"value"), 1)[:size])
    message[8:12] = (size - 12).to_bytes(4, "big")
    for data in (bytes(message), encode_wrapper(1, 1, bytes(message), 1, GZIP)):
        with pytest.raises(CorruptRecordError, match="too few for its header"):
            read(data)


def test_the_checksum_of_a_shallow_message_is_checked_by_the_caller() -> None:
    message = bytearray(encode_message(Message(0, 1, b"k", b"v"), 1))
    message[12] ^= 1
    assert [found.crc_ok for found in read(bytes(message))] == [True]


def test_a_wrapper_of_another_format_than_its_messages_is_read() -> None:
    """Cleaners of old brokers wrote wrappers like this (KAFKA-4298)."""
    inner = encode_set([Message(0, -1, b"k", b"v"), Message(1, -1, b"k", b"w")], 0)
    (first, second) = read(encode_wrapper(8, 5, inner, 1, GZIP))
    assert (first.offset, first.magic, second.offset, second.timestamp) == (7, 0, 8, -1)


@pytest.mark.parametrize("codec", [NONE, *WRAPPING])
@pytest.mark.parametrize("magic", [0, 1])
def test_flipped_bits_give_messages_or_corrupt(magic: int, codec: int) -> None:
    rng = random.Random(magic * 8 + codec)
    entry = encode_set([Message(i, i, b"key", b"value" * i) for i in range(9 if codec else 1)], magic, codec)
    for _ in range(3_000):
        flipped = bytearray(entry)
        flipped[rng.randrange(12, len(entry))] ^= 1 << rng.randrange(8)
        try:
            assert all(m.magic in (0, 1) for m in read_messages(memoryview(flipped), max_bytes=1 << 20))
        except (CorruptRecordError, UnsupportedCompressionError):
            pass


@given(st.binary(max_size=80))
def test_junk_gives_messages_or_corrupt(data: bytes) -> None:
    try:
        read_messages(memoryview(data))
    except CorruptRecordError:
        pass


def test_every_codec_is_covered() -> None:
    assert sorted([NONE, *WRAPPING, ZSTD]) == sorted(CODECS)
