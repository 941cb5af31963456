"""The log directories of a broker with ZooKeeper: checks, ids, files and crashes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.model import ConfigError, DirectoryError, LockedError
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.server.metadata.zookeeper_cluster.directories import format_directories, stored_broker_id
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties, random_uuid, uuid_to_text
from tidelog.storage.fs import LOCAL
from tidelog.storage.log.view.directory_state import LOCK_FILE

CLUSTER = "MkU3OEVBNTcwNTJENDM2Qg"
OTHER_CLUSTER = "4L6g3nShT-eMCtK--X86sw"
KAFKAS_OWN = f"#\n#Fri Nov 20 23:20:27 UTC 2026\nbroker.id=7\nversion=0\ncluster.id={CLUSTER}\n"
"""The file as Kafka 3.9 writes it."""


def form(*directories: Path, broker_id: int = 7, cluster_id: str = CLUSTER) -> None:
    format_directories(LOCAL, directories, broker_id, cluster_id, SYSTEM_CLOCK)


def properties(directory: Path) -> MetaProperties:
    found = MetaProperties.read(LOCAL, directory / META_PROPERTIES_FILE)
    assert found is not None
    return found


def with_file(directory: Path, text: str) -> Path:
    directory.mkdir(parents=True, exist_ok=True)
    (directory / META_PROPERTIES_FILE).write_text(text)
    return directory


def test_new_directories_are_formatted(tmp_path: Path) -> None:
    one, two = tmp_path / "new" / "one", tmp_path / "two"
    one.parent.mkdir()
    form(one, two, one)
    for directory in (one, two):
        found = properties(directory)
        assert (found.version, found.node_id, found.cluster_id) == (0, 7, CLUSTER)
    assert properties(one).directory_id not in (None, properties(two).directory_id)


def test_a_formatted_directory_stays_as_it_is(tmp_path: Path) -> None:
    form(tmp_path)
    before = (tmp_path / META_PROPERTIES_FILE).stat()
    form(tmp_path)
    after = (tmp_path / META_PROPERTIES_FILE).stat()
    assert (before.st_ino, before.st_mtime_ns) == (after.st_ino, after.st_mtime_ns)


@pytest.mark.parametrize("text", [KAFKAS_OWN, "version=0\nbroker.id=7\n", "broker.id=7\n", "version=0\n"])
def test_the_missing_fields_of_kafkas_file_are_added(tmp_path: Path, text: str) -> None:
    form(with_file(tmp_path, text))
    found = properties(tmp_path)
    assert (found.version, found.node_id, found.cluster_id) == (0, 7, CLUSTER)
    assert found.directory_id is not None


def test_partitions_without_a_file_are_taken(tmp_path: Path) -> None:
    (tmp_path / "orders-0").mkdir()
    form(tmp_path)
    assert properties(tmp_path).node_id == 7


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("version=0\nbroker.id=8\n", "Stored node id 8 doesn't match previous node id 7 in "),
        (
            f"version=0\nbroker.id=7\ncluster.id={OTHER_CLUSTER}\n",
            f"Expected {CLUSTER}, but read {OTHER_CLUSTER}. Check that zookeeper.connect has the chroot",
        ),
    ],
)
def test_the_directory_of_another_broker_or_cluster_is_refused(tmp_path: Path, text: str, reason: str) -> None:
    new, other = tmp_path / "new", with_file(tmp_path / "other", text)
    with pytest.raises(ConfigError, match=reason):
        form(new, other)
    assert not new.exists()
    assert (other / META_PROPERTIES_FILE).read_text() == text


def test_a_directory_with_a_metadata_log_is_refused(tmp_path: Path) -> None:
    with_file(tmp_path, f"version=1\nnode.id=7\ncluster.id={CLUSTER}\n")
    reason = r"has version 1: .* Start it with process.roles"
    with pytest.raises(DirectoryError, match=reason):
        form(tmp_path)
    with pytest.raises(DirectoryError, match=reason):
        stored_broker_id(LOCAL, [tmp_path])


def test_a_copy_of_a_directory_is_refused(tmp_path: Path) -> None:
    text = f"version=0\nbroker.id=7\ndirectory.id={uuid_to_text(random_uuid())}\n"
    with pytest.raises(ConfigError, match=r"one and .*two have the same directory.id"):
        form(with_file(tmp_path / "one", text), with_file(tmp_path / "two", text))


def test_the_directory_of_another_process_is_not_written(tmp_path: Path) -> None:
    with_file(tmp_path, KAFKAS_OWN)
    lock = LOCAL.lock(tmp_path / LOCK_FILE)
    try:
        with pytest.raises(LockedError):
            form(tmp_path)
    finally:
        lock.release()
    assert (tmp_path / META_PROPERTIES_FILE).read_text() == KAFKAS_OWN


def test_the_id_in_the_directories(tmp_path: Path) -> None:
    new, without, one = (
        tmp_path / "new",
        with_file(tmp_path / "0", "version=0\n"),
        with_file(tmp_path / "1", KAFKAS_OWN),
    )
    assert stored_broker_id(LOCAL, [new, without]) is None
    assert stored_broker_id(LOCAL, [new, without, one]) == 7
    other = with_file(tmp_path / "2", "version=0\nbroker.id=1001\n")
    with pytest.raises(ConfigError, match="Stored node id 1001 doesn't match previous node id 7"):
        stored_broker_id(LOCAL, [one, other])
