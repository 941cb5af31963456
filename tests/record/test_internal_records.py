"""Storage records: the notation, the decoder against Kafka's bytes, the encoder against the decoder, hostile bytes."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import CorruptRecordError, InvalidRecordError, Record, TopicPartition, UnsupportedFormatError
from tidelog.record.decode import decode_columns, iter_records
from tidelog.record.internal_records import (
    control_tables,
    group_tables,
    metadata_tables,
    remote_tables,
    share_tables,
    transaction_tables,
)
from tidelog.record.internal_records.committed_offset import (
    OffsetAndMetadata,
    offset_commit,
    offset_place,
    offset_tombstone,
    read_offset,
)
from tidelog.record.internal_records.decoder import decode_message, read_unsigned_varint
from tidelog.record.internal_records.defaults import with_defaults
from tidelog.record.internal_records.encoder import encode_message
from tidelog.record.internal_records.frames import (
    KeyValueMessages,
    decode_framed,
    decode_key,
    decode_value,
    encode_framed,
    encode_key,
    encode_value,
    pair_up,
)
from tidelog.record.internal_records.group_record import GroupRecord
from tidelog.record.internal_records.json_text import java_double, kafka_json
from tidelog.record.internal_records.schema import MAX_VERSION, NEVER, Message, Versions, parse_messages
from tidelog.record.internal_records.text import java_text

RECORDS = Path(__file__).resolve().parents[1] / "inspect" / "data" / "records"
COORDINATORS = [
    ("group", group_tables.GROUP_TYPES),
    ("transaction", transaction_tables.TRANSACTION_TYPES),
    ("share", share_tables.SHARE_TYPES),
]
FRAMED = [("metadata", metadata_tables.METADATA_TYPES), ("remote", remote_tables.REMOTE_LOG_TYPES)]
TABLES = (control_tables, group_tables, metadata_tables, remote_tables, share_tables, transaction_tables)
VERSIONS = [
    (message, version)
    for table in TABLES
    for message in table.MESSAGES.values()
    for version in range(message.versions.first, message.versions.last + 1)
]


NEWER = {(0, 4), (17, 3), (29, 0)}
"""Type and version of the metadata records that Kafka 4.1, the writer of the files, did not have."""


def kafka_records(name: str) -> list[Record]:
    data = (RECORDS / f"{name}.log").read_bytes()
    return [
        record
        for columns in decode_columns(data, scan_batches(data), ColumnDecoder())
        for record in iter_records(columns)
    ]


@pytest.mark.parametrize(("name", "types"), COORDINATORS)
def test_coordinator_records_come_back_as_kafka_wrote_them(name: str, types: dict[int, KeyValueMessages]) -> None:
    seen = set()
    for record in kafka_records(name):
        try:
            assert record.key is not None
            key = decode_key(types, record.key)
            value = None if record.value is None else decode_value(types, key.number, record.value)
        except CorruptRecordError:
            continue
        if key.fields is None or value is None or value.fields is None:
            continue
        assert encode_key(types, key.number, key.fields) == record.key
        assert encode_value(types, key.number, value.fields, value.version) == record.value
        seen.add((key.number, value.version))
    assert seen == {
        (number, version)
        for number, pair in types.items()
        for version in range(pair.value.versions.first, pair.value.versions.last + 1)
    }


@pytest.mark.parametrize(("name", "types"), FRAMED)
def test_framed_records_come_back_as_kafka_wrote_them(name: str, types: dict[int, Message]) -> None:
    seen = set()
    for record in kafka_records(name):
        try:
            decoded = decode_framed(types, record.value or b"")
        except CorruptRecordError:
            continue
        if decoded.fields is not None:
            assert encode_framed(types[decoded.number], decoded.fields, decoded.version) == record.value
            seen.add((decoded.number, decoded.version))
    wanted = {
        (number, version)
        for number, message in types.items()
        for version in range(message.versions.first, message.versions.last + 1)
    }
    assert seen == (wanted - NEWER if name == "metadata" else wanted)


@pytest.mark.parametrize(("message", "version"), VERSIONS, ids=lambda part: getattr(part, "name", str(part)))
def test_defaults_round_trip_and_every_cut_is_an_error(message: Message, version: int) -> None:
    if not message.fields:
        return
    blank = {field.name: _small(field.type) for field in message.fields if field.default is None}
    values = {name: value for name, value in blank.items() if version in _field(message, name).versions}
    data = encode_message(message, values, version)
    decoded, end = decode_message(message, data, version)
    assert end == len(data)
    assert with_defaults(message, decoded, version) == with_defaults(message, values, version)
    for cut in range(len(data)):
        with pytest.raises(CorruptRecordError):
            decode_message(message, data[:cut], version)


@settings(max_examples=300)
@given(data=st.binary(max_size=80), chosen=st.sampled_from(VERSIONS))
def test_junk_gives_fields_or_one_error(data: bytes, chosen: tuple[Message, int]) -> None:
    message, version = chosen
    try:
        fields, end = decode_message(message, data, version)
    except CorruptRecordError:
        return
    assert 0 <= end <= len(data)
    assert kafka_json(fields).startswith("{")


def test_unknown_types_and_versions_come_back_raw() -> None:
    assert decode_key(group_tables.GROUP_TYPES, b"\0\x4d\1").raw == b"\0\x4d\1"
    unknown = decode_value(group_tables.GROUP_TYPES, 1, b"\0\x63\1")
    assert (unknown.name, unknown.version, unknown.fields, unknown.raw) == (
        "OffsetCommitValue",
        99,
        None,
        b"\0\x63\1",
    )
    assert decode_framed(metadata_tables.METADATA_TYPES, b"\1\x63\0\7").raw == b"\1\x63\0\7"
    assert decode_framed(metadata_tables.METADATA_TYPES, b"\1\2\x09\7").name == "TopicRecord"


@pytest.mark.parametrize("length", [0, 126, 127, 128, 300, 16_383, 16_384, 32_767])
def test_lengths_of_every_size(length: int) -> None:
    """Version 4 is flexible: a length is a varint of one to three bytes."""
    message = group_tables.MESSAGES["OffsetCommitValue"]
    data = encode_message(message, {"metadata": "x" * length}, 4)
    fields, end = decode_message(message, data, 4)
    assert (fields["metadata"], end) == ("x" * length, len(data))


@pytest.mark.parametrize(
    ("data", "number"),
    [("00", 0), ("7f", 127), ("8001", 128), ("ac02", 300), ("ffffffff07", 2**31 - 1), ("8080808008", -(2**31))],
)
def test_unsigned_varints(data: str, number: int) -> None:
    assert read_unsigned_varint(bytes.fromhex(data), 0) == (number, len(data) // 2)


def test_unknown_tagged_fields_are_skipped() -> None:
    message = group_tables.MESSAGES["OffsetCommitValue"]
    plain = encode_message(message, {"offset": 5}, 4)
    assert plain.endswith(b"\0"), "no tagged fields"
    tagged = plain[:-1] + b"\x02" + b"\x62\x03new" + b"\x63\x00"
    assert decode_message(message, tagged, 4) == (decode_message(message, plain, 4)[0], len(tagged))
    for size in (b"\x04", b"\xff\xff\xff\xff\x0f"):  # more bytes than there are, and a negative number
        with pytest.raises(CorruptRecordError, match="the bytes end"):
            decode_message(message, plain[:-1] + b"\x01\x62" + size + b"new", 4)


def test_a_key_has_version_0_and_may_have_no_more_than_its_type() -> None:
    key = encode_key(group_tables.GROUP_TYPES, 2, {"group": "g"})
    assert (decode_key(group_tables.GROUP_TYPES, key).number, decode_key(group_tables.GROUP_TYPES, key).version) == (
        2,
        0,
    )
    assert decode_key(group_tables.GROUP_TYPES, b"\0\x4d").raw == b"\0\x4d"
    with pytest.raises(CorruptRecordError, match="the bytes end"):
        decode_key(group_tables.GROUP_TYPES, b"\0")


def test_the_notation_of_a_table() -> None:
    text = """
RowKey 3 versions 0 flexible none
    name string
RowValue 3 versions 0-2 flexible 1+
    parts []Part? 1+
        number int32 = -1
        names []string?2+
    after int8
"""
    messages = parse_messages(text)
    parts, after = messages["RowValue"].fields
    number, names = parts.fields
    assert [field.name for field in (parts, number, names, after)] == ["parts", "number", "names", "after"]
    assert (parts.versions, parts.nullable, parts.is_array) == (
        Versions(1, MAX_VERSION),
        Versions(1, MAX_VERSION),
        True,
    )
    assert (number.default, number.nullable, names.nullable) == (-1, NEVER, Versions(2, MAX_VERSION))
    assert pair_up(messages) == {3: KeyValueMessages(messages["RowKey"], messages["RowValue"])}


@pytest.mark.parametrize("expire_ms", [None, 900])
def test_a_committed_offset_is_written_and_read(expire_ms: int | None) -> None:
    place = TopicPartition("t", 3)
    epoch = -1 if expire_ms else 4
    committed = OffsetAndMetadata(offset=7, leader_epoch=epoch, metadata="m", commit_ms=5, expire_ms=expire_ms)
    written = offset_commit("g", place, committed)
    value = written.value_bytes()
    read = GroupRecord.read(written.key_bytes(), value)
    assert read is not None
    assert (value or b"")[:2] == (b"\0\4" if expire_ms is None else b"\0\1")
    assert offset_place(read) == ("g", place)
    assert read_offset(read, 12) == replace(committed, record_offset=12)
    tombstone = offset_tombstone("g", place)
    assert (tombstone.key_bytes(), tombstone.value_bytes()) == (written.key_bytes(), None)


def test_what_cannot_be_written() -> None:
    offset_commit = group_tables.MESSAGES["OffsetCommitValue"]
    with pytest.raises(UnsupportedFormatError, match="no version 9"):
        encode_message(offset_commit, {}, 9)
    with pytest.raises(UnsupportedFormatError, match="expireTimestamp"):
        encode_message(offset_commit, {"expireTimestamp": 5}, 3)
    with pytest.raises(InvalidRecordError, match="metadata may not be null"):
        encode_message(offset_commit, {"metadata": None}, 3)
    with pytest.raises(InvalidRecordError, match="metadata has 32768 bytes, and a string has at most 32767"):
        encode_message(offset_commit, {"metadata": "x" * 32_768}, 4)
    with pytest.raises(InvalidRecordError, match="no field ofset"):
        encode_message(offset_commit, {"ofset": 1}, 3)
    with pytest.raises(InvalidRecordError, match="does not fit"):
        encode_message(offset_commit, {"leaderEpoch": 2**31}, 3)


@pytest.mark.parametrize("line", ["name", "name int7", "name []", "name string tag", "  name string"])
def test_a_line_that_is_no_field(line: str) -> None:
    with pytest.raises(ValueError, match="not a field"):
        parse_messages(f"Message 1 versions 0-1 flexible none\n    {line}\n")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1024.0, "1024.0"),
        (0.001, "0.001"),
        (1e7, "1.0E7"),
        (9999999.5, "9999999.5"),
        (1.5e-5, "1.5E-5"),
        (-123456789.25, "-1.2345678925E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), '"Infinity"'),
        (float("-inf"), '"-Infinity"'),
        (float("nan"), '"NaN"'),
    ],
)
def test_doubles_as_java_prints_them(value: float, text: str) -> None:
    assert java_double(value) == text
    assert kafka_json({"value": value}) == f'{{"value":{text}}}'


def test_json_as_jackson_prints_it() -> None:
    fields: dict[str, Any] = {"text": 'q"\\/\n\t\x01\x1f\x7f é\\u001f', "bytes": b"\xff\0", "list": [None, True, -1]}
    assert kafka_json(fields) == (
        '{"text":"q\\"\\\\/\\n\\t\\u0001\\u001F\x7f é\\\\u001f","bytes":"/wA=","list":[null,true,-1]}'
    )
    with pytest.raises(TypeError, match="set"):
        kafka_json({1})


@given(st.text())
def test_well_formed_text_is_itself(text: str) -> None:
    assert java_text(text.encode()) == text


@given(st.binary(max_size=12))
def test_ill_formed_text_differs_from_python_only_in_surrogate_halves(data: bytes) -> None:
    if b"\xed" not in data:
        assert java_text(data) == data.decode(errors="replace")
    assert len(java_text(data)) <= len(data)


def _field(message: Message, name: str) -> Any:
    return next(field for field in message.fields if field.name == name)


def _small(kind: str) -> object:
    """Return a value for a field with the default null, which its own version may not hold."""
    return {"string": "a", "bytes": b"a"}.get(kind)
