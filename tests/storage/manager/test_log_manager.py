"""A manager of many logs from startup to clean shutdown: create, delete, checkpoint."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from storage.log.log_harness import fetch
from storage.manager.manager_home import (
    CONFIG,
    HIGH_WATERMARK,
    LOG_START,
    MARKER,
    NOW,
    RECOVERY_POINT,
    ManagerHome,
    fill,
)
from tidelog.model import (
    ClosedError,
    DirectoryError,
    InconsistentTopicIdError,
    LockedError,
    OffsetOutOfRangeError,
    StorageError,
    TopicPartition,
    UnknownTopicOrPartitionError,
)
from tidelog.storage.checkpoint import CleanShutdownFile, MetaProperties, OffsetCheckpoint
from tidelog.storage.fs import LOCAL, FileSystem
from tidelog.storage.log.state.log_config import LogConfig

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
HOUR_MS = 3_600_000


@pytest.fixture
def home(tmp_path: Path) -> Iterator[ManagerHome]:
    made = ManagerHome(tmp_path)
    yield made
    made.stop()


def names(path: Path) -> list[str]:
    return sorted(one.name for one in path.iterdir() if one.is_dir())


# --- startup and shutdown ---


def test_what_one_manager_wrote_the_next_one_serves(home: ManagerHome) -> None:
    manager = home.start()
    for partition in (T0, T1, T2):
        fill(manager.get_or_create(partition), 5 + partition.partition)
    manager.shutdown()
    again = home.start()
    assert {partition: again.require(partition).end_offset for partition in again.partitions()} == {
        T0: 50,
        T1: 60,
        T2: 70,
    }
    assert all(not log.loaded.recovered for log in again.all_logs())


def test_missing_directories_are_made(home: ManagerHome) -> None:
    home.start()
    assert all(path.is_dir() for path in home.paths)


def test_it_starts_once(home: ManagerHome) -> None:
    manager = home.start()
    with pytest.raises(RuntimeError, match="already started"):
        manager.startup()


def test_two_managers_exclude_each_other_and_the_second_holds_nothing(home: ManagerHome) -> None:
    first = home.start(paths=home.paths[1:])
    second = home.make()
    with pytest.raises(LockedError):
        second.startup()
    home.managers.remove(second)
    home.start(paths=home.paths[:1])  # the second manager has released it
    first.shutdown()


def test_the_marker_goes_once_all_are_loaded_and_comes_back_last(home: ManagerHome) -> None:
    manager = home.start()
    fill(manager.get_or_create(T0))
    manager.shutdown(5)
    assert [CleanShutdownFile(LOCAL, path).read() for path in home.paths] == [5, 5]
    seen: list[list[bool]] = []
    again = home.make()
    again.startup(on_progress=lambda _: seen.append([(path / MARKER).exists() for path in home.paths]))
    assert seen == [[True, True]]
    assert not any((path / MARKER).exists() for path in home.paths)
    assert again.previous_broker_epoch() == 5
    again.shutdown()
    assert [CleanShutdownFile(LOCAL, path).read() for path in home.paths] == [5, 5]


def test_the_marker_does_not_wait_for_the_metadata_log(home: ManagerHome) -> None:
    metadata = home.paths[0] / "__cluster_metadata-0"
    metadata.mkdir(parents=True)
    home.start().shutdown(5)
    assert CleanShutdownFile(LOCAL, home.paths[0]).read() == 5
    assert list(metadata.iterdir()) == []


def test_broker_epochs_that_differ_are_none(home: ManagerHome) -> None:
    for number, path in enumerate(home.paths):
        home.start(paths=[path]).shutdown(number)
    assert home.start().previous_broker_epoch() is None


def test_after_a_kill_the_logs_are_recovered(home: ManagerHome) -> None:
    manager = home.start()
    fill(manager.get_or_create(T0), 10)
    home.kill(manager)
    again = home.start()
    log = again.require(T0)
    assert log.end_offset == 100
    assert log.loaded.recovered
    again.shutdown()
    assert all((path / MARKER).exists() for path in home.paths)  # all logs were recovered here


def test_what_a_crash_left_of_an_unfinished_small_file_goes_with_the_start(home: ManagerHome) -> None:
    """Other files with the same ending stay, because they are not a broker's."""
    home.start().shutdown()
    names = [
        "cleaner-offset-checkpoint",
        "log-start-offset-checkpoint",
        "meta.properties",
        "recovery-point-offset-checkpoint",
        "replication-offset-checkpoint",
        ".kafka_cleanshutdown",
    ]
    for name in (*names, "mine"):
        (home.paths[0] / f"{name}.tmp").write_text("0\n")
    home.start()
    assert [path.name for path in home.paths[0].glob("*.tmp")] == ["mine.tmp"]


def test_a_log_that_cannot_be_closed_costs_its_directory_the_marker(home: ManagerHome) -> None:
    manager = home.start()
    manager.get_or_create(T0)
    manager.get_or_create(T1)
    sound, torn = manager.require(T0), manager.require(T1)
    torn.close_handlers()
    manager.shutdown()
    assert (sound.directory.parent / MARKER).exists()
    assert not (torn.directory.parent / MARKER).exists()


def test_a_start_that_fails_leaves_the_markers(home: ManagerHome) -> None:
    manager = home.start()
    fill(manager.get_or_create(T0))
    fill(manager.get_or_create(T1), 3)
    manager.shutdown()
    (home.paths[1] / "t-1").rename(home.paths[1] / "t-0")
    failing = home.make()
    with pytest.raises(DirectoryError, match="Duplicate log directories"):
        failing.startup()
    home.managers.remove(failing)
    assert all((path / MARKER).exists() for path in home.paths)
    (home.paths[1] / "t-0").rename(home.paths[1] / "t-1")
    assert home.start().require(T1).end_offset == 30  # the locks are free


def test_the_same_directory_twice_is_refused_however_it_is_written(home: ManagerHome, tmp_path: Path) -> None:
    home.paths[0].mkdir()
    (tmp_path / "link").symlink_to(home.paths[0])
    for other in (home.paths[0], tmp_path / "." / "disk1", tmp_path / "link"):
        with pytest.raises(DirectoryError, match="Duplicate log directory found"):
            home.make(paths=[home.paths[0], other]).startup()
    home.managers.clear()


def test_no_directory_at_all_is_refused(home: ManagerHome, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    failing = home.make(paths=[tmp_path / "file"])
    with pytest.raises(DirectoryError, match="none of the log directories can be created or read"):
        failing.startup()
    home.managers.clear()


def test_a_directory_that_cannot_be_used_is_offline_and_the_rest_go_on(home: ManagerHome, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    manager = home.start(paths=[tmp_path / "file", home.paths[0]])
    assert list(manager.offline) == [tmp_path / "file"]
    assert manager.get_or_create(T0, is_new=True).directory.parent == home.paths[0]
    with pytest.raises(StorageError, match="it may lie in one of the log directories that are offline"):
        manager.get_or_create(T1)
    with pytest.raises(StorageError, match="Failed to delete log for t-1"):
        manager.delete(T1)


def test_damaged_and_unknown_directories_stop_nothing(home: ManagerHome) -> None:
    manager = home.start()
    for partition in (T0, T1):
        fill(manager.get_or_create(partition))
    damaged = manager.require(T1).directory
    manager.shutdown()
    (damaged / "partition.metadata").write_text("version: 9\n")
    (home.paths[0] / "lost+found").mkdir()
    (home.paths[0] / "remote-log-index-cache").mkdir()
    (home.paths[0] / "__cluster_metadata-0").mkdir()
    again = home.start()
    assert again.partitions() == [T0]
    assert list(again.damaged) == [damaged]
    assert again.unknown == [home.paths[0] / "lost+found"]
    before = home.checkpoint(damaged.parent, RECOVERY_POINT)[T1]
    again.shutdown()
    assert home.checkpoint(damaged.parent, RECOVERY_POINT)[T1] == before  # the log may be repaired


def formatted(home: ManagerHome) -> list[uuid.UUID]:
    """Give each directory an id, and return the ids."""
    ids = [uuid.uuid4() for _ in home.paths]
    for path, directory_id in zip(home.paths, ids, strict=True):
        path.mkdir()
        MetaProperties(version=1, cluster_id="c", node_id=1, directory_id=directory_id).write(
            LOCAL, path / "meta.properties"
        )
    return ids


def test_directories_have_their_ids(home: ManagerHome) -> None:
    ids = formatted(home)
    manager = home.start()
    assert [directory.id for directory in manager.online] == ids
    found = manager.directory_of(ids[1])
    assert found is not None
    assert found.path == home.paths[1]
    assert manager.directory_of(uuid.uuid4()) is None
    assert manager.get_or_create(T0, directory_id=ids[1]).directory.parent == home.paths[1]
    assert manager.get_or_create(T1, directory_id=uuid.uuid4()).directory.parent == home.paths[0]  # the least loaded


# --- create and delete ---


def test_a_log_is_made_once(home: ManagerHome) -> None:
    manager = home.start()
    log = manager.get_or_create(T0)
    assert manager.get_or_create(T0) is log
    assert manager.log(T1) is None
    with pytest.raises(UnknownTopicOrPartitionError):
        manager.require(T1)


def test_new_logs_go_where_the_fewest_are(home: ManagerHome) -> None:
    manager = home.start()
    for number in range(20):
        manager.get_or_create(TopicPartition("t", number))
        counts = [len(directory.logs) for directory in manager.online]
        assert max(counts) - min(counts) <= 1


def test_a_cordoned_directory_gets_no_new_logs(home: ManagerHome) -> None:
    manager = home.start()
    kept = [manager.get_or_create(TopicPartition("kept", number)) for number in range(4)]
    manager.cordon(home.paths[:1])
    new = {manager.get_or_create(TopicPartition("new", number)).directory.parent for number in range(6)}
    assert new == {home.paths[1]}
    assert {log.directory.parent for log in kept} == set(home.paths)
    manager.cordon(())
    assert manager.get_or_create(TopicPartition("later", 0)).directory.parent == home.paths[0]


def test_where_all_are_cordoned_the_first_directory_takes_a_log(home: ManagerHome) -> None:
    manager = home.start()
    manager.cordon(home.paths)
    assert {manager.get_or_create(log).directory.parent for log in (T0, T1)} == {home.paths[0]}


def test_a_cordoned_directory_takes_a_log_that_is_its_own(home: ManagerHome) -> None:
    """The metadata, or a client that moves a partition, has chosen the directory before."""
    ids = formatted(home)
    manager = home.start()
    manager.cordon(home.paths[:1])
    assert manager.get_or_create(T0, directory_id=ids[0]).directory.parent == home.paths[0]
    manager.prefer(T1, home.paths[0])
    assert manager.get_or_create(T1).directory.parent == home.paths[0]


def test_a_preferred_directory_comes_first(home: ManagerHome) -> None:
    manager = home.start()
    for partition in (T0, T1):
        manager.prefer(partition, home.paths[1])
        assert manager.get_or_create(partition).directory.parent == home.paths[1]


def test_topic_ids_are_kept_and_compared(home: ManagerHome) -> None:
    topic_id = uuid.uuid4()
    manager = home.start()
    fill(manager.get_or_create(T0, topic_id=topic_id), 1)
    manager.shutdown()
    again = home.start()
    assert again.require(T0).topic_id == topic_id
    with pytest.raises(InconsistentTopicIdError):
        again.get_or_create(T0, topic_id=uuid.uuid4())


def test_a_deleted_log_goes_after_its_delay(home: ManagerHome) -> None:
    manager = home.start()
    log = manager.get_or_create(T0)
    fill(log)
    manager.checkpoint_recovery_points()
    assert manager.delete(T0) is log
    assert manager.log(T0) is None
    path = log.directory.parent
    assert [name.startswith("t-0.") and name.endswith("-delete") for name in names(path)] == [True]
    assert T0 not in home.checkpoint(path, RECOVERY_POINT)
    assert manager.deleted_logs == [log]
    with pytest.raises(ClosedError):
        fill(log, 1)
    anew = manager.get_or_create(T0)
    assert anew.end_offset == 0
    home.clock.sleep_ms(59_999)
    assert log.directory.exists()
    home.clock.sleep_ms(1)
    assert not log.directory.exists()
    assert manager.deleted_logs == []


def test_a_crash_forgets_no_deletion(home: ManagerHome) -> None:
    manager = home.start()
    fill(manager.get_or_create(T0))
    manager.delete(T0)
    home.kill(manager)
    again = home.start()
    assert again.partitions() == []
    assert len(again.deleted_logs) == 1
    home.clock.sleep_ms(2 * 60_000)
    assert [names(path) for path in home.paths] == [[], []]


def test_a_topic_name_of_full_length_is_created_and_deleted(home: ManagerHome) -> None:
    manager = home.start()
    partition = TopicPartition("n" * 249, 9999)
    log = manager.get_or_create(partition)
    manager.delete(partition)
    assert len(log.directory.name) <= 255
    home.clock.sleep_ms(2 * 60_000)
    assert not log.directory.exists()


def test_strays_are_set_aside_and_listed(home: ManagerHome) -> None:
    manager = home.start()
    for partition in (T0, T1, T2):
        fill(manager.get_or_create(partition), 1)
    manager.delete(T2, is_stray=True)
    manager.shutdown()
    again = home.start(is_stray=lambda log: log.directory.name == "t-1")
    assert again.partitions() == [T0]
    assert sorted(path.name.partition(".")[0] for path in again.strays) == ["t-1", "t-2"]
    assert all(path.name.endswith("-stray") and path.is_dir() for path in again.strays)
    home.clock.sleep_ms(HOUR_MS)
    assert all(path.is_dir() for path in again.strays)


def test_reading_goes_on_in_a_deleted_log(home: ManagerHome) -> None:
    manager = home.start()
    log = manager.get_or_create(T0)
    fill(log, 3)
    manager.delete(T0)
    assert log.offset_for_timestamp(NOW) is not None


# --- housekeeping ---


def test_nothing_is_done_before_the_initial_delay(home: ManagerHome) -> None:
    manager = home.start(initial_task_delay_ms=10_000)
    fill(manager.get_or_create(T0))
    home.clock.sleep_ms(9_999)
    assert not any((path / RECOVERY_POINT).exists() for path in home.paths)
    home.clock.sleep_ms(1)
    assert all((path / RECOVERY_POINT).exists() for path in home.paths)


def test_high_watermarks_are_checkpointed_before_the_initial_delay(home: ManagerHome) -> None:
    """A reader of a live broker's files needs the high watermarks."""
    manager = home.start(initial_task_delay_ms=30_000, high_watermark_checkpoint_interval_ms=5000)
    fill(manager.get_or_create(T0))
    home.clock.sleep_ms(5000)
    assert all((path / HIGH_WATERMARK).exists() for path in home.paths)
    assert not any((path / RECOVERY_POINT).exists() for path in home.paths)


def test_old_segments_are_deleted_by_time(home: ManagerHome) -> None:
    manager = home.start(default_config=LogConfig(segment_bytes=1024, segment_index_bytes=4096, retention_ms=HOUR_MS))
    log = manager.get_or_create(T0)
    fill(log, 60)
    assert len(log.base_offsets) > 10
    home.clock.sleep_ms(HOUR_MS + 10 * 60_000)
    assert log.base_offsets == [log.end_offset]
    assert [path.name for path in log.directory.glob("*.log*")] == [f"{log.end_offset:020}.log"]
    with pytest.raises(OffsetOutOfRangeError):
        fetch(log, 0)
    fill(log, 1)


def test_segments_are_deleted_to_maintain_the_size(home: ManagerHome) -> None:
    config = LogConfig(segment_bytes=1024, segment_index_bytes=4096, retention_bytes=3000)
    manager = home.start(default_config=config)
    log = manager.get_or_create(T0)
    fill(log, 60)
    home.clock.sleep_ms(10 * 60_000)
    assert 3000 <= log.size < 3000 + 1024


@pytest.mark.parametrize("policy", ["compact", "compact,delete"])
def test_without_a_cleaner_compacted_topics_keep_their_segments(home: ManagerHome, policy: str) -> None:
    home.topic_settings["t"] = {"cleanup.policy": policy, "retention.ms": "1000"}
    manager = home.start(cleaner_enable=False)
    log = manager.get_or_create(T0)
    fill(log, 30)
    before = log.base_offsets
    home.clock.sleep_ms(HOUR_MS)
    assert log.base_offsets == before


def test_logs_are_flushed_by_time(home: ManagerHome) -> None:
    config = LogConfig(segment_index_bytes=4096, flush_ms=1000)
    manager = home.start(default_config=config, flush_scheduler_interval_ms=1000)
    log = manager.get_or_create(T0)
    fill(log)
    assert log.recovery_point == 0
    home.clock.sleep_ms(31_000)
    assert log.recovery_point == log.end_offset


def test_a_roll_is_flushed_in_the_background(home: ManagerHome) -> None:
    manager = home.start()
    log = manager.get_or_create(T0)
    fill(log, 10)
    assert log.recovery_point == 0
    home.clock.sleep_ms(0)
    assert log.recovery_point == log.base_offsets[-1]


def test_offsets_are_checkpointed(home: ManagerHome) -> None:
    manager = home.start()
    for partition in (T0, T1, T2):
        fill(manager.get_or_create(partition))
        manager.require(partition).flush()
    manager.require(T1).maybe_increment_log_start_offset(7)
    home.clock.sleep_ms(120_000)
    recovery = home.checkpoint(home.paths[0], RECOVERY_POINT) | home.checkpoint(home.paths[1], RECOVERY_POINT)
    watermarks = home.checkpoint(home.paths[0], HIGH_WATERMARK) | home.checkpoint(home.paths[1], HIGH_WATERMARK)
    assert recovery == watermarks == dict.fromkeys((T0, T1, T2), 300)
    starts = home.checkpoint(home.paths[0], LOG_START) | home.checkpoint(home.paths[1], LOG_START)
    assert starts == {T1: 7}


def test_a_checkpoint_speaks_of_its_own_directory_only(home: ManagerHome) -> None:
    manager = home.start()
    for partition in (T0, T1, T2):
        manager.get_or_create(partition)
    manager.checkpoint_recovery_points()
    for directory in manager.online:
        assert set(home.checkpoint(directory.path, RECOVERY_POINT)) == set(directory.logs)


def test_truncation_is_checkpointed_where_it_happened(home: ManagerHome) -> None:
    manager = home.start()
    for partition in (T0, T1):
        fill(manager.get_or_create(partition))
        manager.require(partition).flush()
    manager.truncate_to({T0: 100, TopicPartition("none", 0): 5})
    touched, other = (manager.require(partition).directory.parent for partition in (T0, T1))
    assert home.checkpoint(touched, RECOVERY_POINT) == {T0: 100}
    assert not (other / RECOVERY_POINT).exists()
    manager.truncate_fully_and_start_at(T1, 50)
    assert home.checkpoint(other, RECOVERY_POINT) == {T1: 50}


# --- settings ---


def test_a_topics_settings_lie_over_the_defaults(home: ManagerHome) -> None:
    home.topic_settings["t"] = {"retention.ms": "5000"}
    manager = home.start()
    log, other = manager.get_or_create(T0), manager.get_or_create(TopicPartition("u", 0))
    assert (log.config.retention_ms, log.config.segment_bytes) == (5000, 1024)
    assert other.config == CONFIG
    home.topic_settings["t"] = {"retention.ms": "6000"}
    manager.update_topic_config("t")
    assert log.config.retention_ms == 6000
    assert other.config == CONFIG


def test_settings_of_another_release_are_ignored(home: ManagerHome) -> None:
    home.topic_settings["t"] = {"message.format.version": "2.8", "retention.ms": "5000"}
    log = home.start().get_or_create(T0)
    assert log.config == replace(CONFIG, retention_ms=5000)


def test_settings_that_cannot_be_used_keep_no_other_topic_from_its_own(
    home: ManagerHome, caplog: pytest.LogCaptureFixture
) -> None:
    manager = home.start()
    logs = {topic: manager.get_or_create(TopicPartition(topic, 0)) for topic in ("a", "t", "z")}
    home.topic_settings |= {"t": {"retention.ms": "x"}, "z": {"retention.ms": "5000"}}
    manager.update_default_config(replace(CONFIG, retention_ms=9000))
    manager.update_topic_config("t")
    assert [log.config.retention_ms for log in logs.values()] == [9000, CONFIG.retention_ms, 5000]
    assert (
        "The new settings of topic t are invalid; its logs keep the previous ones: Invalid value x for configuration"
        in caplog.text
    )


def test_new_defaults_reach_every_log_and_leave_what_topics_say(home: ManagerHome) -> None:
    home.topic_settings["t"] = {"retention.ms": "5000"}
    manager = home.start()
    log, other = manager.get_or_create(T0), manager.get_or_create(TopicPartition("u", 0))
    manager.update_default_config(LogConfig(segment_index_bytes=4096, retention_ms=9000, flush_messages=3))
    assert (log.config.retention_ms, log.config.flush_messages) == (5000, 3)
    assert (other.config.retention_ms, other.config.flush_messages) == (9000, 3)
    assert manager.get_or_create(TopicPartition("v", 0)).config.flush_messages == 3


def test_many_logs_are_deleted_with_one_checkpoint(home: ManagerHome, monkeypatch: pytest.MonkeyPatch) -> None:
    manager = home.start(paths=home.paths[:1])
    for partition in (T0, T1, T2):
        fill(manager.get_or_create(partition))
    write, paths = OffsetCheckpoint.write, []

    def count(fs: FileSystem, path: Path, offsets: Mapping[TopicPartition, int]) -> None:
        if path.parent == home.paths[0]:  # brokers of other tests may run in this process
            paths.append(path.name)
        write(fs, path, offsets)

    monkeypatch.setattr(OffsetCheckpoint, "write", count)
    assert manager.delete_all([T0, T2, TopicPartition("nobody's", 0)]) == {}
    assert manager.partitions() == [T1]
    assert len(manager.deleted_logs) == 2
    assert sorted(paths) == sorted([HIGH_WATERMARK, LOG_START, RECOVERY_POINT])
    assert list(OffsetCheckpoint.read(LOCAL, home.paths[0] / RECOVERY_POINT)) == [T1]


@pytest.mark.parametrize(
    "partition",
    [
        TopicPartition("../../evil", 0),
        TopicPartition("sub/deep", 0),
        TopicPartition("a\0b", 0),
        TopicPartition("x" * 250, 0),
        TopicPartition("t", -1),
        TopicPartition("__cluster_metadata", 0),
    ],
)
def test_a_name_that_leads_elsewhere_is_refused(home: ManagerHome, tmp_path: Path, partition: TopicPartition) -> None:
    manager = home.start()
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(DirectoryError, match=r"is not (the name of )?a partition"):
        manager.get_or_create(partition)
    assert sorted(tmp_path.rglob("*")) == before
    assert not (tmp_path.parent / "evil-0").exists()
