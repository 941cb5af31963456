"""Control records: keys and transaction markers."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import CorruptRecordError
from tidelog.record.control import ControlType, EndTransactionMarker, control_key, control_type, control_type_id


@pytest.mark.parametrize("type_", [type_ for type_ in ControlType if type_ is not ControlType.UNKNOWN])
def test_keys_come_back(type_: ControlType) -> None:
    assert control_type(control_key(type_)) is type_
    assert control_type_id(control_key(type_)) == type_


def test_a_later_key_is_read_as_the_known_one() -> None:
    assert control_type(struct.pack(">hh", 3, 1) + b"more") is ControlType.COMMIT
    assert control_type(struct.pack(">hh", 0, 77)) is ControlType.UNKNOWN
    assert control_type_id(struct.pack(">hh", 0, 77)) == 77
    with pytest.raises(ValueError, match="unknown"):
        control_key(ControlType.UNKNOWN)


@pytest.mark.parametrize("key", [None, b"", b"\0\0\0", struct.pack(">hh", -1, 0)])
def test_broken_keys(key: bytes | None) -> None:
    with pytest.raises(CorruptRecordError):
        control_type(key)


@given(committed=st.booleans(), epoch=st.integers(-(2**31), 2**31 - 1))
def test_markers_come_back(committed: bool, epoch: int) -> None:
    marker = EndTransactionMarker(committed=committed, coordinator_epoch=epoch)
    assert EndTransactionMarker.parse(marker.key(), marker.value()) == marker
    assert EndTransactionMarker.parse(marker.key(), b"\0\5" + marker.value()[2:] + b"more") == marker


def test_marker_bytes() -> None:
    marker = EndTransactionMarker(committed=True, coordinator_epoch=7)
    assert marker.key() == b"\0\0\0\1"
    assert marker.value() == b"\0\0\0\0\0\7"


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (control_key(ControlType.LEADER_CHANGE), bytes(6)),
        (control_key(ControlType.ABORT), bytes(5)),
        (control_key(ControlType.ABORT), None),
        (control_key(ControlType.COMMIT), b"\xff\xff\0\0\0\0"),
    ],
)
def test_broken_markers(key: bytes, value: bytes | None) -> None:
    with pytest.raises(CorruptRecordError):
        EndTransactionMarker.parse(key, value)
