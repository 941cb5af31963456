"""KRaft's control records: complete bytes, round trips, and the records of real brokers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from golden_sets import KRAFT_SETS
from tidelog.kernel import ColumnDecoder, scan_batches
from tidelog.model import CorruptRecordError, TidelogError, UnsupportedFormatError
from tidelog.record.control import ControlType, control_type
from tidelog.record.decode import decode_columns, iter_records
from tidelog.record.quorum import quorum_fields, quorum_value

DIRECTORY_ID = "AAAAAAAAAAAAAAAAAAAAAQ"

VALUES: list[tuple[ControlType, dict[str, Any], bytes]] = [
    (
        ControlType.LEADER_CHANGE,
        {"version": 0, "leaderId": 1, "voters": [{"voterId": 1}], "grantingVoters": [{"voterId": 1}]},
        bytes.fromhex("0000 00000001 02 00000001 00 02 00000001 00 00"),
    ),
    (
        ControlType.LEADER_CHANGE,
        {
            "version": 1,
            "leaderId": 1,
            "voters": [{"voterId": 1, "voterDirectoryId": DIRECTORY_ID}],
            "grantingVoters": [],
        },
        bytes.fromhex("0001 00000001 02 00000001 00000000000000000000000000000001 00 01 00"),
    ),
    (
        ControlType.SNAPSHOT_HEADER,
        {"version": 0, "lastContainedLogTimestamp": 7},
        bytes.fromhex("0000 0000000000000007 00"),
    ),
    (ControlType.SNAPSHOT_FOOTER, {"version": 0}, bytes.fromhex("0000 00")),
    (ControlType.KRAFT_VERSION, {"version": 0, "kRaftVersion": 1}, bytes.fromhex("0000 0001 00")),
    (
        ControlType.KRAFT_VOTERS,
        {
            "version": 0,
            "voters": [
                {
                    "voterId": 3,
                    "voterDirectoryId": DIRECTORY_ID,
                    "endpoints": [{"name": "C", "host": "h", "port": 65_000}],
                    "kRaftVersionFeature": {"minSupportedVersion": 0, "maxSupportedVersion": 1},
                }
            ],
        },
        bytes.fromhex(
            "0000 02 00000003 00000000000000000000000000000001 02 0243 0268 fde8 00 0000 0001 00 00 00".replace(" ", "")
        ),
    ),
]


@pytest.mark.parametrize(("type_", "fields", "value"), VALUES, ids=lambda part: getattr(part, "name", ""))
def test_values(type_: ControlType, fields: dict[str, Any], value: bytes) -> None:
    assert quorum_value(type_, fields) == value
    assert quorum_fields(type_, value) == fields
    for cut in range(len(value)):
        with pytest.raises(CorruptRecordError):
            quorum_fields(type_, value[:cut])


def test_a_leader_change_as_kafka_4_1_writes_it() -> None:
    """The first field has version 1, and the layout of version 0 follows."""
    value = bytes.fromhex("0001 00000001 02 00000001 00 01 00")
    assert quorum_fields(ControlType.LEADER_CHANGE, value) == {
        "version": 1,
        "leaderId": 1,
        "voters": [{"voterId": 1, "voterDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA"}],
        "grantingVoters": [],
    }


@given(value=st.binary(max_size=60), type_=st.sampled_from([type_ for type_, _, _ in VALUES]))
def test_junk_gives_fields_or_an_error(value: bytes, type_: ControlType) -> None:
    for junk in (value, b"\0\0" + value):
        try:
            quorum_fields(type_, junk)
        except TidelogError:
            pass


def test_what_is_not_known() -> None:
    with pytest.raises(CorruptRecordError, match="COMMIT"):
        quorum_fields(ControlType.COMMIT, bytes(9))
    with pytest.raises(UnsupportedFormatError, match="version 9"):
        quorum_fields(ControlType.LEADER_CHANGE, b"\0\x09" + bytes(9))
    with pytest.raises(CorruptRecordError):
        quorum_fields(ControlType.LEADER_CHANGE, None)


@pytest.mark.parametrize("set_name", KRAFT_SETS)
def test_leader_changes_of_real_brokers(golden: Callable[..., Path], set_name: str) -> None:
    seen = 0
    for path in sorted((golden(set_name) / "__cluster_metadata-0").glob("*.log")):
        data = path.read_bytes()
        table = scan_batches(data)
        for columns in decode_columns(data, table, ColumnDecoder(), keep=table.is_control):
            for record in iter_records(columns):
                if control_type(record.key) is ControlType.LEADER_CHANGE:
                    assert record.value is not None
                    fields = quorum_fields(ControlType.LEADER_CHANGE, record.value)
                    assert fields["leaderId"] == 1
                    assert quorum_value(ControlType.LEADER_CHANGE, fields) == record.value
                    seen += 1
    assert seen > 0
