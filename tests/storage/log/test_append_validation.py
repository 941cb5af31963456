"""Appends as leader: each rule of ``LogValidator`` and of the analysis before it."""

from __future__ import annotations

import pickle
import zlib
from typing import Any, TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from append_cases import LEGACY_CODECS, NOW, current_appends, legacy_appends, marker, messages, raw_batch, records
from kernel.batch_bytes import batch, record
from legacy_messages import Message, encode_set
from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import (
    CorruptRecordError,
    Header,
    InvalidRecordError,
    InvalidTimestampError,
    OffsetsOutOfOrderError,
    Record,
    RecordTooLargeError,
    Refusal,
    TidelogError,
    TimestampType,
    UnexpectedAppendOffsetError,
    UnsupportedCompressionError,
)
from tidelog.record.attributes import CODECS
from tidelog.record.build import build_batch
from tidelog.record.decode import decode_columns, iter_records
from tidelog.storage.log.append.append_rules import AppendRules
from tidelog.storage.log.append.append_validation import Validated, analyze, assign_offsets
from tidelog.storage.log.state.log_config import LogConfig
from tidelog.storage.producer import AppendOrigin

Refused = TypeVar("Refused", bound=TidelogError)
FIRST = 1234
EPOCH = 5
COMPACT = frozenset({"compact"})
every_codec = pytest.mark.parametrize("codec", CODECS)
every_target = pytest.mark.parametrize("target", ["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"])


def append(data: bytes | bytearray, origin: AppendOrigin = AppendOrigin.CLIENT, **settings: Any) -> Validated:
    rules = AppendRules.of(LogConfig(**settings))
    analysis = analyze(bytearray(data), rules, origin, now_ms=NOW, leader_epoch=EPOCH)
    return assign_offsets(analysis, first_offset=FIRST, leader_epoch=EPOCH, now_ms=NOW)


def stored(validated: Validated) -> list[Record]:
    table = scan_batches(validated.batches)
    assert table.end_position == len(validated.batches)
    assert table.summary.sound
    decoder = ColumnDecoder()
    return [found for part in decode_columns(validated.batches, table, decoder) for found in iter_records(part)]


def contents(found: list[Record]) -> list[tuple[Any, ...]]:
    return [(one.timestamp, one.key, one.value, one.headers) for one in found]


def refused(data: bytes, kind: type[Refused], origin: AppendOrigin = AppendOrigin.CLIENT, **settings: Any) -> Refused:
    with pytest.raises(TidelogError) as caught:
        append(data, origin, **settings)
    assert type(caught.value) is kind
    assert isinstance(caught.value, kind)
    return caught.value


def indexes(error: InvalidRecordError) -> list[int]:
    return [one.batch_index for one in error.record_errors]


# --- batches that stay unchanged ---


@every_codec
def test_a_batch_in_the_logs_codec_stays_as_it_is(codec: int) -> None:
    data = bytes(build_batch(records(), codec=codec))
    every: list[dict[str, Any]] = [{}, {"compression_type": CODECS[codec]}]
    for settings in every:
        found = append(data, **settings)
        row = found.table().row(0)
        assert found.batches[21:] == data[21:]
        assert (row.base_offset, row.last_offset, row.leader_epoch) == (FIRST, FIRST + 2, EPOCH)
        assert (found.first_offset, found.last_offset) == (FIRST, FIRST + 2)
        assert (found.max_timestamp, found.offset_of_max_timestamp, found.log_append_time) == (NOW - 3, FIRST + 2, -1)
        assert found.stats.converted_records == 0


@pytest.mark.parametrize(("codec", "level"), [("gzip", 9), ("lz4", 17), ("zstd", 19)])
def test_another_level_alone_does_not_recompress(codec: str, level: int) -> None:
    data = bytes(build_batch(records(), codec=codec))
    settings: dict[str, Any] = {f"compression_{codec}_level": level}
    found = append(data, compression_type=codec, **settings)
    assert found.batches[21:] == data[21:]


@every_codec
def test_the_max_timestamp_becomes_that_of_the_records(codec: int) -> None:
    found = append(current_appends(codec)["wrong max timestamp"])
    row = scan_batches(found.batches).row(0)
    assert (found.max_timestamp, row.max_timestamp, row.crc_ok) == (NOW + 1, NOW + 1, True)


@every_target
def test_a_control_batch_stays_as_it_is(target: str) -> None:
    data = marker()
    assert append(data, AppendOrigin.COORDINATOR, compression_type=target).batches[16:] == data[16:]


def test_the_caller_gets_its_own_buffer_back() -> None:
    buffer = bytearray(build_batch(records()))
    rules = AppendRules.of(LogConfig())
    analysis = analyze(buffer, rules, AppendOrigin.CLIENT, now_ms=NOW)
    assert assign_offsets(analysis, first_offset=FIRST, leader_epoch=EPOCH, now_ms=NOW).batches is buffer


@every_codec
def test_a_batch_that_is_cut_at_the_end_is_left_out(codec: int) -> None:
    data = bytes(build_batch(records(), codec=codec))
    for cut in (1, 16, 30, len(data) - 1):
        found = append(data + data[:cut])
        assert found.batches[21:] == data[21:]
        assert found.stats.converted_records == 0


@pytest.mark.parametrize("data", [b"", bytes(build_batch(records()))[:-1], bytes(11)])
def test_nothing_to_append(data: bytes) -> None:
    assert analyze(bytearray(data), AppendRules.of(LogConfig()), AppendOrigin.CLIENT, now_ms=NOW).is_empty


# --- timestamps ---


@every_codec
@every_target
def test_log_append_time(codec: int, target: str) -> None:
    sent = records()
    found = append(
        bytes(build_batch(sent, codec=codec)), message_timestamp_type="LogAppendTime", compression_type=target
    )
    row = scan_batches(found.batches).row(0)
    assert [(one.timestamp, one.timestamp_type) for one in stored(found)] == [(NOW, TimestampType.LOG_APPEND)] * 3
    assert (row.base_timestamp, row.max_timestamp) == (sent[0].timestamp, NOW)
    assert (found.max_timestamp, found.offset_of_max_timestamp, found.log_append_time) == (NOW, FIRST + 2, NOW)


def test_log_append_time_is_that_under_the_lock() -> None:
    rules = AppendRules.of(LogConfig(message_timestamp_type="LogAppendTime"))
    analysis = analyze(bytearray(build_batch(records())), rules, AppendOrigin.CLIENT, now_ms=NOW)
    found = assign_offsets(analysis, first_offset=FIRST, leader_epoch=EPOCH, now_ms=NOW + 8)
    assert {one.timestamp for one in stored(found)} == {NOW + 8} == {found.log_append_time}


@every_codec
@every_target
@pytest.mark.parametrize(("late", "limit"), [(-1001, "before"), (1001, "after")])
def test_create_times_too_far_from_the_clock(codec: int, target: str, late: int, limit: str) -> None:
    times = [NOW, NOW + late, NOW, NOW + 2 * late]
    sent = [Record(i, time, TimestampType.CREATE, None, b"", ()) for i, time in enumerate(times)]
    settings: dict[str, Any] = {f"message_timestamp_{limit}_max_ms": 1000, "compression_type": target}
    error = refused(bytes(build_batch(sent, codec=codec)), InvalidTimestampError, **settings)
    assert (error.code, indexes(error)) == (32, [1, 3])
    assert append(bytes(build_batch(sent[::2], codec=codec)), **settings)


@every_codec
def test_records_without_timestamps_are_never_too_old(codec: int) -> None:
    found = append(current_appends(codec)["without timestamps"], message_timestamp_before_max_ms=1)
    assert (found.max_timestamp, found.offset_of_max_timestamp) == (-1, -1)


@every_codec
def test_a_producer_may_not_say_log_append_time(codec: int) -> None:
    appends = current_appends(codec)
    assert append(appends["log append time"]).max_timestamp == NOW + 1  # validated as create time, then cleared
    cases: list[tuple[bytes, dict[str, Any]]] = [
        (appends["log append time without time"], {}),
        (appends["log append time"], {"message_timestamp_type": "LogAppendTime"}),
    ]
    for data, settings in cases:
        assert indexes(refused(data, InvalidTimestampError, **settings)) == [0, 1]


@every_codec
def test_a_negative_timestamp_cannot_go_into_a_new_batch(codec: int) -> None:
    data = current_appends(codec)["timestamp below 0"]
    assert append(data).max_timestamp == -1  # like Kafka: the timestamp is below "none"
    refused(data, InvalidTimestampError, compression_type="gzip" if codec != 1 else "lz4")


# --- refused records ---


@every_codec
@every_target
def test_a_compacted_topic_needs_keys(codec: int, target: str) -> None:
    data = current_appends(codec)["without key"]
    error = refused(data, InvalidRecordError, cleanup_policy=COMPACT, compression_type=target)
    assert (error.code, indexes(error)) == (87, [3, 4])
    assert error.refusals == (Refusal.NO_KEY,) * 2
    assert "key" in error.record_errors[0].message
    assert append(data, compression_type=target)


@every_codec
@every_target
def test_one_invalid_timestamp_among_other_errors_decides(codec: int, target: str) -> None:
    data = current_appends(codec)["without key, and from the future"]
    error = refused(data, InvalidTimestampError, cleanup_policy=COMPACT, compression_type=target)
    assert indexes(error) == [3, 4, 5, 6]


@every_codec
@every_target
@pytest.mark.parametrize("name", ["too few records", "too many records", "a record with a tail"])
def test_records_that_contradict_themselves(codec: int, target: str, name: str) -> None:
    assert not refused(current_appends(codec)[name], InvalidRecordError, compression_type=target).record_errors


def test_compressed_data_that_is_none() -> None:
    for codec in (1, 2, 3, 4):
        refused(batch(b"garbage", attributes=codec, record_count=2, last_offset_delta=1), CorruptRecordError)
    refused(batch(b"whatever", attributes=5, record_count=2, last_offset_delta=1), UnsupportedCompressionError)


@every_codec
def test_inner_offsets_out_of_order(codec: int) -> None:
    """An unchanged batch must have consecutive inner offsets. A rebuilt batch gets correct ones."""
    data = current_appends(codec)["inner offsets"]
    refused(data, InvalidRecordError)
    found = append(data, compression_type="zstd" if codec != 4 else "gzip")
    assert [one.offset for one in stored(found)] == [FIRST, FIRST + 1, FIRST + 2]


# --- refused batches ---


@every_codec
@every_target
@pytest.mark.parametrize("name", ["no records", "count 0", "range"])
def test_offset_ranges_that_are_not_the_count(codec: int, target: str, name: str) -> None:
    error = refused(current_appends(codec)[name], InvalidRecordError, compression_type=target)
    assert error.refusals == (Refusal.OFFSET,)


@pytest.mark.parametrize(("last_delta", "count"), [(0, 3), (15, 3), (-3, 3), (2, -3), (2, 6), (2, 1), (2, 0), (2, -2)])
def test_a_wrong_count_or_last_offset(last_delta: int, count: int) -> None:
    parts = [record(index) for index in range(3)]
    assert append(raw_batch(parts, last_offset_delta=2, record_count=3))
    refused(raw_batch(parts, last_offset_delta=last_delta, record_count=count), InvalidRecordError)


@pytest.mark.parametrize(("last_delta", "count"), [(3, 4), (1, 2)])
def test_a_count_that_fits_the_offsets_but_not_the_records(last_delta: int, count: int) -> None:
    parts = [record(index) for index in range(3)]
    for codec in CODECS:
        refused(raw_batch(parts, codec, last_offset_delta=last_delta, record_count=count), InvalidRecordError)


@every_codec
def test_control_batches_of_clients(codec: int) -> None:
    assert refused(marker(codec), InvalidRecordError).refusals == (Refusal.OFFSET,)


@every_codec
@every_target
def test_a_producer_id_needs_a_sequence(codec: int, target: str) -> None:
    appends = current_appends(codec)
    error = refused(appends["without sequence"], InvalidRecordError, compression_type=target)
    assert error.refusals == (Refusal.SEQUENCE,)
    row = append(appends["transactional"], compression_type=target).table().row(0)
    assert (row.producer_id, row.producer_epoch, row.base_sequence, row.attributes & 0x10) == (7, 1, 5, 0x10)


@every_codec
@every_target
@pytest.mark.parametrize("origin", [AppendOrigin.CLIENT, AppendOrigin.COORDINATOR])
def test_only_one_batch(codec: int, target: str, origin: AppendOrigin) -> None:
    refused(current_appends(codec)["two batches"], InvalidRecordError, origin, compression_type=target)


def test_batches_of_several_formats() -> None:
    old, new = encode_set(messages(1), 1), bytes(build_batch(records()))
    for data in (old + new, encode_set(messages(1), 0) + old):
        assert refused(data, InvalidRecordError).refusals == (Refusal.MAGIC,)
    refused(new + old, InvalidRecordError)


@every_codec
def test_a_clients_base_offset_is_0(codec: int) -> None:
    data = bytes(build_batch(records(), codec=codec, base_offset=3))
    assert "3" in str(refused(data, InvalidRecordError))
    assert append(data, AppendOrigin.COORDINATOR).first_offset == FIRST


@every_codec
def test_a_wrong_crc(codec: int) -> None:
    data = build_batch(records(), codec=codec)
    data[-1] ^= 1
    assert refused(bytes(data), CorruptRecordError).code == 2
    refused(encode_set(messages(2), 1)[:-1] + b"?", CorruptRecordError)


@pytest.mark.parametrize("fields", [{"length": 13}, {"length": 48}, {"magic": 3}, {"magic": -1}])
def test_batches_that_cannot_be(fields: dict[str, int]) -> None:
    refused(batch([record(0)], **fields), CorruptRecordError)


def test_the_first_thing_that_is_wrong_counts() -> None:
    wrong = batch([record(0)], magic=3)
    assert "offset 3" in str(refused(bytes(build_batch(records(), base_offset=3)) + wrong, InvalidRecordError))


def test_replicated_batches_are_not_a_leaders_to_judge() -> None:
    with pytest.raises(ValueError, match="follower"):
        append(build_batch(records()), AppendOrigin.REPLICATION)


# --- sizes ---


@every_codec
def test_a_batch_larger_than_the_log_takes(codec: int) -> None:
    data = bytes(build_batch(records(), codec=codec))
    assert append(data, max_message_bytes=len(data))
    error = refused(data, RecordTooLargeError, max_message_bytes=len(data) - 1)
    assert (error.code, error.position) == (10, 0)
    refused(encode_set(messages(1), 1), RecordTooLargeError, max_message_bytes=10)


def test_a_batch_too_large_once_it_is_built_anew() -> None:
    sent = [Record(0, NOW, TimestampType.CREATE, None, b"a" * 10_000, ())]
    data = bytes(build_batch(sent, codec="gzip"))
    assert refused(data, RecordTooLargeError, max_message_bytes=5000, compression_type="uncompressed").code == 10
    assert append(data, max_message_bytes=5000, compression_type="zstd")


# --- other codecs ---


@every_codec
@every_target
def test_recompression(codec: int, target: str) -> None:
    sent = records(50)
    data = bytes(build_batch(sent, codec=codec, producer_id=7, producer_epoch=1, base_sequence=3))
    found = append(data, compression_type=target)
    row = found.table().row(0)
    kept = target in ("producer", CODECS[codec]) or (target == "uncompressed" and codec == 0)
    wanted = codec if target == "producer" else {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[target]
    assert row.attributes == wanted
    assert contents(stored(found)) == contents(sent)
    assert (row.producer_id, row.producer_epoch, row.base_sequence, row.leader_epoch) == (7, 1, 3, EPOCH)
    assert (found.last_offset, found.max_timestamp) == (FIRST + 49, NOW + 44)
    assert found.stats.converted_records == (0 if kept else 50)
    plain = len(build_batch(sent))
    assert found.stats.temporary_bytes == (2 * plain if not kept else plain if wanted else 0)


def test_the_level_is_that_of_the_log() -> None:
    sent = [Record(i, NOW, TimestampType.CREATE, None, bytes(range(i % 200)) * 9, ()) for i in range(400)]
    data = bytes(build_batch(sent))
    sizes = [len(append(data, compression_type="gzip", compression_gzip_level=level).batches) for level in (1, 9)]
    assert sizes[0] > sizes[1]


@given(
    st.lists(
        st.tuples(
            st.integers(-1, NOW), st.none() | st.binary(max_size=9), st.none() | st.binary(max_size=99), st.booleans()
        ),
        min_size=1,
        max_size=30,
    ),
    st.sampled_from(list(CODECS)),
    st.sampled_from(["producer", "uncompressed", "gzip", "snappy", "lz4", "zstd"]),
)
def test_what_is_stored_is_what_was_sent(
    drawn: list[tuple[int, bytes | None, bytes | None, bool]], codec: int, target: str
) -> None:
    sent = [
        Record(i, time, TimestampType.CREATE, key, value, (Header("h", value),) if header else ())
        for i, (time, key, value, header) in enumerate(drawn)
    ]
    found = append(bytes(build_batch(sent, codec=codec)), compression_type=target)
    back = stored(found)
    assert contents(back) == contents(sent)
    assert [one.offset for one in back] == list(range(FIRST, found.last_offset + 1))
    assert found.max_timestamp == max(one.timestamp for one in sent)


# --- formats v0 and v1 ---


@every_target
@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_old_formats_become_one_v2_batch(magic: int, codec: int, target: str) -> None:
    found = append(legacy_appends(magic, codec)["offsets"], compression_type=target)
    row = scan_batches(found.batches).row(0)
    wanted = codec if target == "producer" else {"uncompressed": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}[target]
    times = [NOW - 9 + i if magic else -1 for i in range(4)]
    assert (row.magic, row.attributes, row.record_count, row.producer_id) == (2, wanted, 4, -1)
    assert contents(stored(found)) == [(time, b"k", b"v%d" % i, ()) for i, time in enumerate(times)]
    assert (found.first_offset, found.last_offset, found.max_timestamp) == (FIRST, FIRST + 3, times[-1])
    assert found.offset_of_max_timestamp == (FIRST + 3 if magic else -1)
    assert found.stats.converted_records == 4


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", LEGACY_CODECS)
def test_old_formats_under_log_append_time(magic: int, codec: int) -> None:
    found = append(legacy_appends(magic, codec)["plain"], message_timestamp_type="LogAppendTime")
    row = scan_batches(found.batches).row(0)
    assert {one.timestamp for one in stored(found)} == {NOW} == {found.max_timestamp}
    assert row.base_timestamp == (NOW - 9 if magic else -1)


@pytest.mark.parametrize("magic", [0, 1])
def test_keys_in_old_formats(magic: int) -> None:
    """Each message without a codec is a batch of its own, so it has its own index."""
    for codec in LEGACY_CODECS:
        data = legacy_appends(magic, codec)["without key"]
        assert indexes(refused(data, InvalidRecordError, cleanup_policy=COMPACT)) == [1 if codec else 0]
        assert append(data)


def test_timestamps_in_old_formats() -> None:
    for codec in LEGACY_CODECS:
        sent = [Message(0, NOW, None, b""), Message(1, NOW + 2000, None, b"")]
        error = refused(encode_set(sent, 1, codec), InvalidTimestampError, message_timestamp_after_max_ms=1000)
        assert indexes(error) == [1 if codec else 0]


@pytest.mark.parametrize("magic", [0, 1])
@pytest.mark.parametrize("codec", [1, 2, 3])
def test_wrappers_that_hold_something_wrong(magic: int, codec: int) -> None:
    appends = legacy_appends(magic, codec)
    error = refused(appends["inner magic"], InvalidRecordError)
    assert indexes(error) == [0, 1, 2, 3]
    assert error.refusals == (Refusal.MAGIC,) * 4
    refused(appends["inner CRC"], CorruptRecordError)
    for name in ("empty wrapper", "nested", "two"):
        refused(appends[name], InvalidRecordError)
    if magic:
        refused(appends["wrapper's offset too low"], InvalidRecordError)
    assert len(stored(append(appends["wrapper's offset 0"]))) == 4


def test_old_formats_know_no_zstd() -> None:
    message = bytearray(encode_set(messages(1), 1))
    message[17] = 4
    message[12:16] = zlib.crc32(message[16:]).to_bytes(4, "big")
    refused(bytes(message), InvalidRecordError)


# --- the Raft leader ---


def raft(*bases: int, **fields: Any) -> bytes:
    built = (build_batch(records(), base_offset=base, leader_epoch=EPOCH, **fields) for base in bases)
    return b"".join(map(bytes, built))


def test_the_raft_leaders_batches_keep_their_offsets() -> None:
    data = raft(FIRST, FIRST + 3)
    found = append(data, AppendOrigin.RAFT_LEADER, compression_type="gzip")
    assert (bytes(found.batches), found.first_offset, found.last_offset) == (data, FIRST, FIRST + 5)
    assert (found.max_timestamp, found.offset_of_max_timestamp) == (NOW - 3, FIRST + 2)


def test_the_raft_leaders_batches_that_are_refused() -> None:
    leader = AppendOrigin.RAFT_LEADER
    refused(bytes(build_batch(records(), base_offset=FIRST, leader_epoch=4)), InvalidRecordError, leader)
    refused(raft(FIRST + 3, FIRST), OffsetsOutOfOrderError, leader)
    assert refused(raft(FIRST - 1), UnexpectedAppendOffsetError, leader).offset == FIRST - 1
    refused(raft(FIRST), RecordTooLargeError, leader, max_message_bytes=20)
    refused(raft(FIRST)[:-1] + b"?", CorruptRecordError, leader)


def test_offsets_that_would_pass_63_bits() -> None:
    analysis = analyze(bytearray(build_batch(records())), AppendRules.of(LogConfig()), AppendOrigin.CLIENT, now_ms=NOW)
    assert assign_offsets(analysis, first_offset=2**63 - 3, leader_epoch=0, now_ms=NOW).last_offset == 2**63 - 1
    with pytest.raises(InvalidRecordError, match="63"):
        assign_offsets(analysis, first_offset=2**63 - 2, leader_epoch=0, now_ms=NOW)


def test_errors_keep_what_they_know_of_records_when_pickled() -> None:
    error = refused(current_appends(0)["without key"], InvalidRecordError, cleanup_policy=COMPACT)
    back = pickle.loads(pickle.dumps(error))
    assert (type(back), str(back)) == (InvalidRecordError, str(error))
    assert (back.record_errors, back.refusals) == (error.record_errors, error.refusals)
