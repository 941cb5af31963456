"""The copy of the metadata log: only committed records reach the image, and a snapshot replaces the log or nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import ParamSpec, TypeVar

import pytest

from client.peer import run
from server.metadata.observer.joined_broker import broker_config, topic_records
from tidelog.model import CheckpointError
from tidelog.protocol.fetch_response import SnapshotId
from tidelog.runtime import SYSTEM_CLOCK
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.features import LATEST_METADATA_VERSION, NEW_CLUSTER
from tidelog.server.metadata.image import MetadataChange, MetadataImage
from tidelog.server.metadata.kraft.batches import build_records
from tidelog.server.metadata.kraft.metadata_log import MetadataLogSettings
from tidelog.server.metadata.kraft.quorum import past_voters
from tidelog.server.metadata.kraft.snapshot import build_snapshot, image_records
from tidelog.server.metadata.metadata_record import MetadataRecord, encode_record
from tidelog.server.metadata.observer.observed_image import ObservedImage
from tidelog.server.metadata.observer.observed_log import ObservedLog
from tidelog.server.metadata.published_metadata import apply_all
from tidelog.storage.epoch import EpochEndOffset
from tidelog.storage.fs import LOCAL
from tidelog.testing.manual_clock import ManualClock
from tidelog.testing.manual_scheduler import ManualScheduler

P = ParamSpec("P")
T = TypeVar("T")
FEATURES = [feature_record(name, level) for name, level in NEW_CLUSTER.items()]


def batch(base_offset: int, epoch: int, *records: MetadataRecord) -> bytearray:
    values = [encode_record(record, LATEST_METADATA_VERSION) for record in records]
    return build_records(values, base_offset=base_offset, epoch=epoch, now_ms=1)


def snapshot_of(*records: MetadataRecord) -> bytes:
    image = MetadataImage()
    apply_all(image, records, 0)
    values = [encode_record(record, LATEST_METADATA_VERSION) for record in image_records(image)]
    return build_snapshot(values, epoch=3, last_timestamp_ms=1, now_ms=1)


def opened(directory: Path) -> ObservedLog:
    (directory / "__cluster_metadata-0").mkdir(exist_ok=True)
    settings = MetadataLogSettings.of(broker_config(directory, []))
    return ObservedLog(LOCAL, directory, settings, SYSTEM_CLOCK, ManualScheduler(ManualClock(0)))


def image_over(log: ObservedLog) -> ObservedImage:
    config = broker_config(log.directory.parent, [])
    image = ObservedImage("c", past_voters(()), config, SYSTEM_CLOCK, in_thread)
    image.load(log)
    return image


def in_thread(function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> asyncio.Future[T]:
    return asyncio.get_running_loop().run_in_executor(None, lambda: function(*args, **kwargs))


def install(log: ObservedLog, snapshot: SnapshotId, data: bytes, size: int | None = None) -> None:
    log.begin_snapshot(snapshot)
    for position in range(0, len(data), 100):
        log.add_to_snapshot(snapshot, position, data[position : position + 100])
    log.install_snapshot(snapshot, len(data) if size is None else size)


async def advanced(image: ObservedImage, high_watermark: int) -> None:
    """Let the image reach the high watermark."""
    running = asyncio.ensure_future(image.run())
    image.advance(high_watermark)
    while image.published.end_offset < high_watermark:
        assert not running.done(), running.exception()
        await asyncio.sleep(0.001)
    running.cancel()
    await image.close()


def test_records_above_the_high_watermark_are_not_in_the_image(tmp_path: Path) -> None:
    async def work() -> None:
        log = opened(tmp_path)
        log.append_fetched(batch(0, 1, *FEATURES), 1)
        end = log.end_offset
        log.append_fetched(batch(end, 1, *topic_records("a")), 1)
        log.close()
        log = opened(tmp_path)  # also after a restart, which does not know the high watermark
        image = image_over(log)
        assert image.published.image.topics == {}
        await advanced(image, end)
        assert image.published.image.topics == {}
        assert image.published.image.features == NEW_CLUSTER
        await advanced(image, log.end_offset)
        assert image.published.image.topics.keys() == {"a"}
        log.close()

    run(work)


def test_changes_are_published_one_batch_after_the_other(tmp_path: Path) -> None:
    async def work() -> None:
        log = opened(tmp_path)
        log.append_fetched(batch(0, 1, *FEATURES), 1)
        image = image_over(log)
        await advanced(image, log.end_offset)
        image.split()
        changes: list[MetadataChange] = []
        prepared: list[int] = []

        async def prepare(change: MetadataChange) -> None:
            prepared.append(len(changes))
            assert not any(topic.name in image.published.image.topics for topic in change.created_topics)

        image.published.subscribe(changes.append, prepare)
        for number, name in enumerate(("a", "b")):
            log.append_fetched(batch(log.end_offset, 1, *topic_records(name, number)), 1)
        running = asyncio.ensure_future(image.run())
        image.advance(log.end_offset)
        for _ in range(20):
            await asyncio.sleep(0)
        assert changes == [], "the image stands still until the broker's parts follow it"
        image.release()
        while len(changes) < 2:
            assert not running.done(), running.exception()
            await asyncio.sleep(0.001)
        assert [[topic.name for topic in change.created_topics] for change in changes] == [["a"], ["b"]]
        assert prepared == [0, 1]
        assert changes[-1].end_offset == log.end_offset
        running.cancel()
        await image.close()
        log.close()

    run(work)


def test_a_snapshot_replaces_the_log(tmp_path: Path) -> None:
    async def work() -> None:
        log = opened(tmp_path)
        log.append_fetched(batch(0, 1, *FEATURES), 1)
        id_ = SnapshotId(50, 3)
        data = snapshot_of(*FEATURES, *topic_records("a"))
        install(log, id_, data)
        assert (log.log_start_offset, log.end_offset, log.last_epoch) == (50, 50, 3)
        assert log.has_snapshot(id_)
        assert not log.has_snapshot(SnapshotId(50, 2))
        assert (log.directory / f"{50:020}-{3:010}.checkpoint").read_bytes() == data
        log.append_fetched(batch(50, 4, *topic_records("b", 2)), 4)
        assert log.last_epoch == 4
        assert log.end_of_epoch(3) == EpochEndOffset(3, 50)
        log.close()
        log = opened(tmp_path)
        image = image_over(log)
        assert image.published.image.topics.keys() == {"a"}
        await advanced(image, log.end_offset)
        assert image.published.image.topics.keys() == {"a", "b"}
        log.close()

    run(work)


@pytest.mark.parametrize("damage", ["short", "flipped", "size"])
def test_an_invalid_snapshot_changes_nothing(tmp_path: Path, damage: str) -> None:
    log = opened(tmp_path)
    log.append_fetched(batch(0, 1, *FEATURES), 1)
    data = snapshot_of(*FEATURES)
    middle = len(data) // 2
    flipped = data[:middle] + bytes([data[middle] ^ 1]) + data[middle + 1 :]
    broken = data[:-1] if damage == "short" else flipped
    with pytest.raises(CheckpointError):
        install(
            log, SnapshotId(50, 3), data if damage == "size" else broken, len(data) + 1 if damage == "size" else None
        )
    assert (log.log_start_offset, log.end_offset) == (0, len(FEATURES))
    log.drop_snapshot(SnapshotId(50, 3))
    assert not list(log.directory.glob("*.checkpoint*"))
    log.close()


def test_an_unfinished_snapshot_is_removed_by_the_next_opening(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.begin_snapshot(SnapshotId(50, 3))
    log.add_to_snapshot(SnapshotId(50, 3), 0, b"half")
    log.close()
    opened(tmp_path).close()
    assert not list((tmp_path / "__cluster_metadata-0").glob("*.checkpoint*"))


def test_the_quorum_is_remembered(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.write_quorum_state(100, 5, (100, 101))
    log.close()
    log = opened(tmp_path)
    state = log.quorum_state()
    assert state is not None
    assert (state.leader_id, state.epoch, state.voters) == (100, 5, (100, 101))
    log.write_quorum_state(101, 6, None)
    assert b'"data_version":1' in (log.directory / "quorum-state").read_bytes()
    log.close()


def test_a_truncation_removes_the_records_of_a_leader_that_lost(tmp_path: Path) -> None:
    log = opened(tmp_path)
    log.append_fetched(batch(0, 1, *FEATURES), 1)
    end = log.end_offset
    log.append_fetched(batch(end, 2, *topic_records("lost")), 2)
    assert log.end_of_epoch(1) == EpochEndOffset(1, end)
    log.truncate_to(end)
    assert (log.end_offset, log.last_epoch) == (end, 1)
    log.append_fetched(batch(end, 3, *topic_records("won")), 3)
    assert log.last_epoch == 3
    log.close()
