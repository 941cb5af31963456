"""The small files of log and partition directories, and Kafka's ids: refused input, and round trips."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.model import CheckpointError
from tidelog.storage.checkpoint import (
    CleanShutdownFile,
    MetaProperties,
    PartitionMetadata,
    QuorumState,
    uuid_from_text,
    uuid_to_text,
    written_at,
)
from tidelog.storage.checkpoint.clean_shutdown import format_broker_epoch, parse_broker_epoch
from tidelog.storage.fs import LOCAL

ID = uuid.UUID("1c0f3cc8-1589-c506-da8f-b98d3bbd305b")
ID_TEXT = uuid_to_text(ID)


@given(st.uuids())
def test_ids(value: uuid.UUID) -> None:
    text = uuid_to_text(value)
    assert len(text) == 22
    assert uuid_from_text(text) == uuid_from_text(text + "==") == value


@pytest.mark.parametrize("text", ["", "abc", "A" * 21, "A" * 23, "A" * 21 + "+", "A" * 22 + "=", "Ä" * 22])
def test_not_ids(text: str) -> None:
    with pytest.raises(ValueError, match="22 base64 characters"):
        uuid_from_text(text)


def test_partition_metadata(tmp_path: Path) -> None:
    path = tmp_path / "partition.metadata"
    assert PartitionMetadata.read(LOCAL, path) is None
    PartitionMetadata(topic_id=ID).write(LOCAL, path)
    assert path.read_text() == f"version: 0\ntopic_id: {ID_TEXT}"
    found = PartitionMetadata.read(LOCAL, path)
    assert found == PartitionMetadata(topic_id=ID)
    assert found is not None
    assert found.topic_id_text == ID_TEXT
    assert PartitionMetadata.parse(f"version:0\ntopic_id:{ID_TEXT}\n".encode()) == found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "2 lines were expected, but there are 0"),
        ("version: 0", "2 lines were expected"),
        (f"version: 0\ntopic_id: {ID_TEXT}\nmore", "2 lines were expected"),
        (f"version: 1\ntopic_id: {ID_TEXT}", "line 1: a version other than 0: 'version: 1'"),
        (f"version: x\ntopic_id: {ID_TEXT}", "line 1"),
        (f"version\ntopic_id: {ID_TEXT}", "line 1: 'version: ...' was expected"),
        (f"version: 0\nid: {ID_TEXT}", "line 2: 'topic_id: ...' was expected"),
        ("version: 0\ntopic_id: short", "line 2: 'short' is not an id"),
        ("version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA", "line 2: the all-zero id"),
    ],
)
def test_refused_partition_metadata(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "x").write_text(text)
    with pytest.raises(CheckpointError, match=message) as caught:
        PartitionMetadata.read(LOCAL, tmp_path / "x")
    assert caught.value.path == str(tmp_path / "x")


@given(st.binary(max_size=80))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    for parse in (PartitionMetadata.parse, MetaProperties.parse, QuorumState.parse):
        try:
            parse(data)
        except CheckpointError:
            pass
    assert parse_broker_epoch(data) is None or b"brokerEpoch" in data


@pytest.mark.parametrize(
    "state",
    [
        QuorumState(leader_id=1, epoch=7),
        QuorumState(leader_id=-1, epoch=8, voted_id=1),
        QuorumState(leader_id=1, epoch=2, voters=(1, 2)),
    ],
)
def test_quorum_state(tmp_path: Path, state: QuorumState) -> None:
    assert QuorumState.read(LOCAL, tmp_path) is None
    state.write(LOCAL, tmp_path)
    assert QuorumState.read(LOCAL, tmp_path) == state


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "not a readable quorum-state"),
        ("[]", "not a readable quorum-state"),
        ("{}", "data_version"),
        ('{"data_version":2}', "version 2 is unknown"),
        ('{"data_version":1,"leaderId":1,"leaderEpoch":"x"}', "'x'"),
    ],
)
def test_refused_quorum_state(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "quorum-state").write_text(text)
    with pytest.raises(CheckpointError, match=message) as caught:
        QuorumState.read(LOCAL, tmp_path)
    assert caught.value.path == str(tmp_path / "quorum-state")


def test_meta_properties(tmp_path: Path) -> None:
    path = tmp_path / "meta.properties"
    assert MetaProperties.read(LOCAL, path) is None
    meta = MetaProperties(
        version=1, cluster_id="c", node_id=3, directory_id=ID, written_at=written_at(1_795_216_827_000)
    )
    meta.write(LOCAL, path)
    assert path.read_text().splitlines() == [
        "#",
        "#Fri Nov 20 23:20:27 UTC 2026",
        "node.id=3",
        f"directory.id={ID_TEXT}",
        "version=1",
        "cluster.id=c",
    ]
    assert MetaProperties.read(LOCAL, path) == meta
    old = MetaProperties(version=0, node_id=7)
    assert old.to_bytes() == b"#\nbroker.id=7\nversion=0\n"
    assert MetaProperties.parse(b"broker.id = 7") == old
    assert MetaProperties.parse(b"") == MetaProperties(version=0)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("version=2\n", "version 2 is unknown"),
        ("version=one\n", "version is not an integer: 'one'"),
        ("version=1\nnode.id=1\n", "cluster.id is missing"),
        ("version=1\ncluster.id=c\n", "node.id is missing"),
        ("version=1\ncluster.id=c\nnode.id=x\n", "node.id is not an integer: 'x'"),
        ("version=0\ndirectory.id=?\n", "not an id"),
        ("version=0\ncluster.id=\\u12\n", "malformed"),
    ],
)
def test_refused_meta_properties(text: str, message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        MetaProperties.parse(text.encode(), path=Path("meta.properties"))


def test_clean_shutdown(tmp_path: Path) -> None:
    marker = CleanShutdownFile(LOCAL, tmp_path)
    marker.remove()
    marker.write(288)
    assert marker.path.read_bytes() == b'{"version":0,"brokerEpoch":288}'
    assert (marker.exists(), marker.read()) == (True, 288)
    marker.path.write_bytes(b"")
    assert (marker.exists(), marker.read()) == (True, None)
    marker.remove()
    assert (marker.exists(), marker.read()) == (False, None)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"7",
        b'{"version":0}',
        b'{"brokerEpoch":"1"}',
        b'{"brokerEpoch":1.5}',
        b"[" * 100000,
        b'{"brokerEpoch":true}',
        b'{"brokerEpoch":9223372036854775808}',
        b"\xff",
    ],
)
def test_no_broker_epoch(data: bytes) -> None:
    assert parse_broker_epoch(data) is None


@given(st.integers(-(2**63), 2**63 - 1))
def test_broker_epochs(epoch: int) -> None:
    assert parse_broker_epoch(format_broker_epoch(epoch)) == epoch
    assert parse_broker_epoch(b'{"new":{},"brokerEpoch":%d}' % epoch) == epoch
