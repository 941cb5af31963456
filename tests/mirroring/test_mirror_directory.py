"""The log directory of a copy: its metadata, its logs, and its next owners."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

import tidelog
from log_maker import batch
from mirroring.opened_copy import SOURCE, OpenedCopy, opened_copy
from tidelog.following.log_work import LogOutcome, LogWork
from tidelog.mirroring.target.copied_metadata import CopiedTopic
from tidelog.mirroring.target.log_pass import PassResult, run_pass
from tidelog.mirroring.target.mirror_properties import MirrorProperties
from tidelog.model import CheckpointError, CorruptRecordError, TopicPartition
from tidelog.record.internal_records.transaction_record import TransactionRecord, TransactionState, key_of, value_of
from tidelog.replication.follower_commands import Append, LogCommand, RaiseLogStart, TruncateFully
from tidelog.storage.checkpoint import MetaProperties
from tidelog.storage.fs import LOCAL
from tidelog.testing import Broker

ORDERS = uuid.uuid4()
FIRST = TopicPartition("orders", 0)


def orders(
    epochs: Mapping[int, int] | None = None,
    topic_id: uuid.UUID = ORDERS,
    settings: Mapping[str, str] | None = None,
) -> CopiedTopic:
    return CopiedTopic(name="orders", topic_id=topic_id, epochs=epochs or {0: 7}, settings=settings)


def passed(copy: OpenedCopy, *commands: LogCommand, reserved_end: int = 1) -> PassResult:
    work = LogWork(FIRST, copy.directory.log(FIRST), commands)
    return run_pass(copy.directory.logs, [work], reserved_end)


def append(copy: OpenedCopy, data: bytes, *, epoch: int = 7) -> LogOutcome:
    (outcome,) = passed(copy, Append(records=data, leader_epoch=epoch)).outcomes
    return outcome


def take_over(copy: OpenedCopy, *topics: CopiedTopic, deletes_old: bool = False) -> None:
    copy.loop.run(lambda: copy.directory.take_over(topics, deletes_old=deletes_old))


def cluster_id_of(path: Path) -> str | None:
    properties = MetaProperties.read(LOCAL, path / "meta.properties")
    assert properties is not None
    return properties.cluster_id


def values(path: Path) -> list[bytes | None]:
    with tidelog.open_directory(path, read_only=True) as logs:
        return [record.value for record in logs.log("orders", 0).records(until="log_end")]


def test_a_copy_has_its_own_cluster_id_and_the_topic_ids_of_the_source(tmp_path: Path) -> None:
    path = tmp_path / "copy"
    with opened_copy(path) as copy:
        take_over(copy, orders({0: 7, 1: 3}))
        assert append(copy, batch(5, [b"a", b"b"], epoch=7)).error is None
        assert copy.directory.log(FIRST).high_watermark == 7
    cluster_id = cluster_id_of(path)
    assert cluster_id not in (None, SOURCE)
    assert MirrorProperties.read(LOCAL, path / "mirror.properties") == MirrorProperties(source_cluster_id=SOURCE)
    assert (path / ".kafka_cleanshutdown").exists()
    assert values(path) == [b"a", b"b"]
    with opened_copy(path) as copy:
        assert copy.directory.log(FIRST).topic_id == ORDERS
        assert copy.directory.log(FIRST).end_offset == 7
    assert cluster_id_of(path) == cluster_id


def test_a_broker_on_the_copy_leads_in_a_later_epoch_than_the_source(tmp_path: Path) -> None:
    with opened_copy(tmp_path) as copy:
        take_over(copy, orders({0: 7}))
        append(copy, batch(0, [b"a"], epoch=7))
        take_over(copy, orders({0: 9}))
        append(copy, batch(1, [b"b"], epoch=9), epoch=9)
    with Broker(tmp_path) as broker:
        assert [record.value for record in broker.records("orders")] == [b"a", b"b"]
        state = broker.call(lambda: broker.server.metadata.image.partition(FIRST))
        assert state is not None
        assert state.leader == 1
        assert state.leader_epoch > 9
        log = broker.call(lambda: broker.server.logs.require(FIRST))
        assert log.epochs.latest == state.leader_epoch


def test_a_remade_topic_sets_the_old_copy_aside_or_deletes_it(tmp_path: Path) -> None:
    other, third = uuid.uuid4(), uuid.uuid4()
    with opened_copy(tmp_path) as copy:
        take_over(copy, orders())
        append(copy, batch(0, [b"old"], epoch=7))
        take_over(copy, orders(topic_id=other))
        assert copy.directory.log(FIRST).end_offset == 0
        append(copy, batch(0, [b"new"], epoch=7))
        take_over(copy, orders(topic_id=third), deletes_old=True)
        assert copy.directory.log(FIRST).topic_id == third
    names = [path.name for path in tmp_path.iterdir() if path.name.startswith("orders-0")]
    assert sorted(name.rpartition("-")[2] for name in names) == ["0", "delete", "stray"]


def test_an_unclean_end_keeps_the_records_and_the_metadata(tmp_path: Path) -> None:
    copy = OpenedCopy(tmp_path)
    try:
        copy.open()
        take_over(copy, orders(settings={"retention.ms": "-1", "cleanup.policy": "compact"}))
        append(copy, batch(0, [b"a", b"b"], epoch=7))
        copied = tmp_path / "as a crash leaves it"
        copied.mkdir()
        for name in ("meta.properties", "mirror.properties", "orders-0", "__cluster_metadata-0"):
            (tmp_path / name).rename(copied / name)
    finally:
        copy.end()
    with opened_copy(copied) as again:
        assert again.directory.log(FIRST).end_offset == 2
        assert again.directory.log(FIRST).config.is_compacted
        assert append(again, batch(2, [b"c"], epoch=7)).error is None
    assert values(copied) == [b"a", b"b", b"c"]


def test_settings_follow_the_source_and_a_topic_of_unknown_settings_keeps_its_records(tmp_path: Path) -> None:
    with opened_copy(tmp_path) as copy:
        take_over(copy, orders())
        assert copy.directory.metadata.settings_of("orders") == {"retention.ms": "-1"}
        take_over(copy, orders(settings={"segment.bytes": "1048576"}))
        assert copy.directory.metadata.settings_of("orders") == {"segment.bytes": "1048576"}
        assert copy.directory.log(FIRST).config.segment_bytes == 1_048_576
        before = copy.directory.metadata.image.topics["orders"]
        take_over(copy, orders())
        assert copy.directory.metadata.settings_of("orders") == {"segment.bytes": "1048576"}
        assert copy.directory.metadata.image.topics["orders"] == before


def test_producer_ids_are_reserved_above_those_of_the_records(tmp_path: Path) -> None:
    with opened_copy(tmp_path) as copy:
        take_over(copy, orders())
        command = Append(records=batch(0, [b"a"], producer_id=4_000_123, epoch=7), leader_epoch=7)
        assert passed(copy, command, reserved_end=4_000_123) == PassResult(unreserved_id=4_000_123)
        assert copy.directory.log(FIRST).end_offset == 0
        copy.loop.run(lambda: copy.directory.reserve_producer_ids(4_000_123))
        reserved = copy.directory.image.next_producer_id
        assert reserved > 4_000_123
        assert passed(copy, command, reserved_end=reserved).unreserved_id is None
        assert copy.directory.log(FIRST).end_offset == 1
        copy.loop.run(lambda: copy.directory.reserve_producer_ids(4_000_124))
        assert copy.directory.image.next_producer_id == reserved


def test_producer_ids_of_transactions_without_records_are_reserved_too(tmp_path: Path) -> None:
    state = TransactionRecord(
        state=TransactionState.EMPTY, producer_id=77, producer_epoch=0, timeout_ms=1, last_update_ms=1
    )
    data = batch(0, [value_of(state, 1), None], key=key_of("tx"))
    partition = TopicPartition("__transaction_state", 3)
    with opened_copy(tmp_path) as copy:
        topic = CopiedTopic(name=partition.topic, topic_id=ORDERS, epochs={3: 0}, settings=None)
        take_over(copy, topic)
        work = LogWork(partition, copy.directory.log(partition), [Append(records=data, leader_epoch=0)])
        assert run_pass(copy.directory.logs, [work], 77) == PassResult(unreserved_id=77)
        assert run_pass(copy.directory.logs, [work], 78).unreserved_id is None


def test_the_log_start_follows_the_leaders(tmp_path: Path) -> None:
    with opened_copy(tmp_path) as copy:
        take_over(copy, orders())
        append(copy, batch(0, [b"a", b"b", b"c"], epoch=7))
        passed(copy, RaiseLogStart(offset=1))
        assert copy.directory.log(FIRST).log_start_offset == 1
        passed(copy, TruncateFully(offset=900))
        assert append(copy, batch(900, [b"d"], epoch=7)).error is None
        log = copy.directory.log(FIRST)
        assert (log.log_start_offset, log.end_offset, log.high_watermark) == (900, 901, 901)


def test_an_append_is_divided_into_pieces_that_fit_into_segments(tmp_path: Path) -> None:
    data = b"".join(batch(number, [b"%01000d" % number], epoch=7) for number in range(40))
    with opened_copy(tmp_path) as copy:
        take_over(copy, orders(settings={"segment.bytes": "1048576", "retention.ms": "-1"}))
        log = copy.directory.log(FIRST)
        log.update_config(replace(log.config, segment_bytes=16_384))
        assert append(copy, data + data[:50]) == LogOutcome(None, len(data))
        assert log.end_offset == 40
        assert len(log.segments) == 3
        far = batch(40, [b"a"], epoch=7) + batch(2**31 + 90, [b"b"], epoch=7)
        assert append(copy, far).error is None
        assert log.end_offset == 2**31 + 91
        assert append(copy, b"\0" * 100).error is not None


def test_the_batches_before_an_invalid_one_are_appended(tmp_path: Path) -> None:
    broken = bytearray(batch(2, [b"c"], epoch=7))
    broken[-1] ^= 1
    with opened_copy(tmp_path) as copy:
        take_over(copy, orders())
        outcome = append(copy, batch(0, [b"a", b"b"], epoch=7) + broken + batch(3, [b"d"], epoch=7))
        assert isinstance(outcome.error, CorruptRecordError)
        assert outcome.appended_bytes == len(batch(0, [b"a", b"b"], epoch=7))
        assert copy.directory.log(FIRST).end_offset == 2


def test_a_file_of_an_unknown_version_is_refused() -> None:
    with pytest.raises(CheckpointError, match="version 2 is unknown"):
        MirrorProperties.parse(b"version=2\nsource.cluster.id=x\n")
    with pytest.raises(CheckpointError, match=r"source\.cluster\.id is missing"):
        MirrorProperties.parse(b"version=1\n")
