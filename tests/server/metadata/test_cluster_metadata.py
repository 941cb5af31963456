"""The embedded metadata over restarts: changes are durable, and epochs distinguish the runs."""

from __future__ import annotations

import asyncio
import errno

import pytest

from server.metadata.metadata_harness import METADATA, MetadataHarness, create, run, setting, topic_resource
from tidelog.model import ConfigError, CorruptRecordError, StorageError, TopicPartition
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.control import ControlType
from tidelog.record.internal_records.schema import ZERO_UUID
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.decision import Decision
from tidelog.server.metadata.image import MetadataChange
from tidelog.server.metadata.kraft.batches import read_batches
from tidelog.server.metadata.kraft.snapshot import BOOTSTRAP_ID, read_snapshot
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import NewPartitions, NewTopic, PartitionAlteration
from tidelog.storage.fs import read_whole
from tidelog.testing import DiskFault, SimulatedDisk

T0 = TopicPartition("t", 0)


class TestStart:
    def test_a_new_directory_has_the_features_of_a_new_cluster(self) -> None:
        async def work() -> None:
            metadata = await MetadataHarness().started()
            assert metadata.image.features == {
                "metadata.version": 33,
                "eligible.leader.replicas.version": 1,
                "group.version": 1,
                "share.version": 2,
                "streams.version": 1,
                "transaction.version": 2,
            }
            assert metadata.image.controller_id == 1
            assert len(metadata.image.cluster_id) == 22
            assert metadata.quorum.epoch == 1

        run(work)

    def test_each_start_has_an_epoch_of_its_own(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            for epoch in (1, 2, 3):
                metadata = await harness.started()
                assert metadata.quorum.epoch == epoch
                state = read_whole(harness.fs, METADATA / "quorum-state")
                assert state == (
                    b'{"leaderId":1,"leaderEpoch":%d,"votedId":-1,'
                    b'"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1}' % epoch
                )
                await metadata.close()

        run(work)

    def test_the_first_records_are_copied_from_the_snapshot_of_formatting_into_the_log(self) -> None:
        """Kafka's brokers load no record from that snapshot (``MetadataLoader.handleLoadBootstrap``)."""

        async def work() -> None:
            harness = MetadataHarness()
            await (await harness.started()).close()
            log = read_whole(harness.fs, METADATA / "00000000000000000000.log")
            names = [record.name for batch in read_batches(log) for record in batch.records]
            assert names[:2] == ["BeginTransactionRecord", "FeatureLevelRecord"]

        run(work)

    def test_static_voters_stand_in_the_quorum_state(self) -> None:
        async def work() -> None:
            harness = MetadataHarness(settings={"controller.quorum.voters": "1@localhost:9093"})
            await harness.started()
            assert read_whole(harness.fs, METADATA / "quorum-state") == (
                b'{"clusterId":"","leaderId":1,"leaderEpoch":1,"votedId":-1,"appliedOffset":0,'
                b'"currentVoters":[{"voterId":1}],"data_version":0}'
            )
            (header,) = read_snapshot(harness.fs, METADATA / BOOTSTRAP_ID.file_name)[0].control_records
            assert header.type is ControlType.SNAPSHOT_HEADER

        run(work)

    def test_a_quorum_with_others_is_refused(self) -> None:
        harness = MetadataHarness(settings={"controller.quorum.voters": "1@a:1,2@b:1"})
        metadata = harness.made()
        metadata.format()
        with pytest.raises(ConfigError, match="voters 1, 2"):
            metadata.load()

    def test_a_directory_of_another_node_is_refused(self) -> None:
        harness = MetadataHarness()
        harness.made().format()
        with pytest.raises(ConfigError, match="Stored node id 1 doesn't match previous node id 2"):
            MetadataHarness(harness.fs, node_id=2).made().format()


class TestChanges:
    def test_are_there_at_the_next_start(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            metadata = await harness.joined()
            await create(metadata, "kept", "gone", partitions=2)
            await metadata.alter_configs({topic_resource("kept"): [setting("retention.ms", "5")]})
            await metadata.create_partitions([NewPartitions(topic="kept", total=3)])
            await metadata.delete_topics(["gone"])
            assert await metadata.allocate_producer_ids() == range(1000)
            topic_id = metadata.image.topics["kept"].id
            await harness.stop(metadata)

            metadata = await harness.joined()
            image = metadata.image
            assert list(image.topics) == ["kept"]
            assert image.topics["kept"].id == topic_id
            assert sorted(image.topics["kept"].partitions) == [0, 1, 2]
            assert image.configs[topic_resource("kept")] == {"retention.ms": "5"}
            assert await metadata.allocate_producer_ids() == range(1000, 2000)

        run(work)

    def test_are_only_validated_where_that_is_asked_for(self) -> None:
        async def work() -> None:
            metadata = await MetadataHarness().joined()
            end = metadata.quorum.high_watermark
            (made, refused) = await metadata.create_topics(
                [NewTopic(name="t", partitions=2), NewTopic(name="")], validate_only=True
            )
            assert (made.error, made.partitions) == (ErrorCode.NONE, 2)
            assert refused.error is ErrorCode.INVALID_TOPIC_EXCEPTION
            assert metadata.quorum.high_watermark == end
            assert not metadata.image.topics

        run(work)

    def test_happen_one_after_the_other(self) -> None:
        async def work() -> None:
            metadata = await MetadataHarness().joined()
            results = await asyncio.gather(*(metadata.create_topics([NewTopic(name="t")]) for _ in range(5)))
            errors = [result.error for (result,) in results]
            assert errors == [ErrorCode.NONE] + [ErrorCode.TOPIC_ALREADY_EXISTS] * 4

        run(work)

    def test_go_through_though_nobody_waits_for_them(self) -> None:
        async def work() -> None:
            metadata = await MetadataHarness().joined()
            asking = asyncio.ensure_future(metadata.create_topics([NewTopic(name="t")]))
            await asyncio.sleep(0)
            asking.cancel()
            await create(metadata, "u")
            assert list(metadata.image.topics) == ["t", "u"]

        run(work)

    def test_are_told_in_order_and_awaited(self) -> None:
        async def work() -> None:
            metadata = await MetadataHarness().joined()
            told: list[MetadataChange] = []
            carried_out = asyncio.Event()

            async def carry_out() -> None:
                await asyncio.sleep(0)
                carried_out.set()

            def listen(change: MetadataChange) -> asyncio.Task[None]:
                told.append(change)
                return asyncio.ensure_future(carry_out())

            end = metadata.subscribe(listen)
            await create(metadata, "t", partitions=2)
            assert carried_out.is_set()
            (topic,) = told[0].created_topics
            assert [number for _, number in told[0].partitions] == [0, 1]
            end()
            await metadata.delete_topics(["t"])
            assert len(told) == 1
            assert topic.name == "t"

        run(work)

    def test_a_listener_that_fails_stops_nobody(self) -> None:
        async def work() -> None:
            metadata = await MetadataHarness().joined()

            def fail(_change: MetadataChange) -> None:
                raise ValueError("a bug")

            metadata.subscribe(fail)
            await create(metadata, "t")
            assert "t" in metadata.image.topics

        run(work)

    def test_a_change_is_published_when_the_listeners_are_prepared(self) -> None:
        async def work() -> None:
            metadata = await MetadataHarness().joined()
            ready = asyncio.Event()
            published: list[list[str]] = []

            async def prepare(change: MetadataChange) -> None:
                assert not {topic.name for topic in change.created_topics} & metadata.image.topics.keys()
                await ready.wait()

            def listen(change: MetadataChange) -> None:
                assert metadata.applied_offset == change.end_offset - 1
                published.append([topic.name for topic in change.created_topics])

            end = metadata.subscribe(listen, prepare)
            before = metadata.applied_offset
            changes = [asyncio.ensure_future(create(metadata, name)) for name in ("a", "b")]
            again = asyncio.ensure_future(metadata.create_topics([NewTopic(name="a")]))
            while "b" not in metadata._store.committed.topics:
                await asyncio.sleep(0)
            assert (dict(metadata.image.topics), metadata.applied_offset) == ({}, before)
            ready.set()
            (refused,) = await again
            assert refused.error is ErrorCode.TOPIC_ALREADY_EXISTS
            assert "a" in metadata.image.topics
            await asyncio.gather(*changes)
            assert published == [["a"], ["b"]]
            assert metadata.image == metadata._store.committed
            end()
            ready.clear()
            await create(metadata, "c")

        run(work)

    def test_what_fails_to_prepare_stops_nobody(self) -> None:
        async def work() -> None:
            metadata = await MetadataHarness().joined()

            async def fail(_change: MetadataChange) -> None:
                raise ValueError("a bug")

            metadata.subscribe(lambda _change: None, fail)
            await create(metadata, "t")
            assert "t" in metadata.image.topics

        run(work)

    def test_settings_are_known_before_the_topic_is_published(self) -> None:
        async def work() -> None:
            metadata = await MetadataHarness().joined()
            seen: list[tuple[object, object]] = []

            async def prepare(_change: MetadataChange) -> None:
                published = metadata.image.settings_of(ResourceType.TOPIC, "t")
                seen.append((dict(metadata.committed_settings("t")), dict(published)))

            metadata.subscribe(lambda _change: None, prepare)
            await metadata.create_topics([NewTopic(name="t", configs={"retention.ms": "5"})])
            assert seen == [({"retention.ms": "5"}, {})]

        run(work)

    def test_a_change_waits_for_its_turn_no_longer_than_its_timeout(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            metadata = await harness.joined()
            async with metadata._store._turn:
                late, punctual = (
                    asyncio.ensure_future(metadata.create_topics([NewTopic(name=name)], timeout_ms=timeout_ms))
                    for name, timeout_ms in {"a": 10, "b": 11}.items()
                )
                await asyncio.sleep(0)
                harness.clock.sleep_ms(10)
            with pytest.raises(ApiError, check=lambda error: error.code is ErrorCode.REQUEST_TIMED_OUT):
                await late
            await punctual
            assert list(metadata.image.topics) == ["b"]
            assert await metadata.create_topics([], timeout_ms=0) == []

        run(work)

    def test_end_where_the_disk_fails(self) -> None:
        async def work() -> None:
            disk = SimulatedDisk()
            harness = MetadataHarness(disk)
            metadata = await harness.joined()
            fault = disk.fail(DiskFault(errno=errno.EIO, calls={"sync"}, below=METADATA))
            with pytest.raises(StorageError):
                await create(metadata, "t")
            disk.heal(fault)
            assert len(harness.failures) == 1
            assert not metadata.image.topics
            with pytest.raises(ApiError) as refused:
                await create(metadata, "u")
            assert refused.value.code is ErrorCode.NOT_CONTROLLER
            await metadata.leave()
            await metadata.close()

        run(work)

    def test_end_where_the_rules_contradict_the_image(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            metadata = await harness.joined()
            wrong = MetadataRecord("RemoveTopicRecord", {"topicId": ZERO_UUID})
            with pytest.raises(CorruptRecordError):
                await metadata._store.change(lambda: Decision([wrong], None))
            assert len(harness.failures) == 1
            with pytest.raises(ApiError):
                await create(metadata, "t")
            await metadata.close()

        run(work)


class TestBroker:
    def test_partitions_have_a_leader_while_it_is_there(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            metadata = await harness.joined()
            await create(metadata, "t")
            before = metadata.image.partition(T0)
            assert before is not None
            assert (before.leader, before.isr, before.leader_epoch, before.partition_epoch) == (1, (1,), 0, 0)
            await metadata.leave()
            left = metadata.image.partition(T0)
            assert left is not None
            assert (left.leader, left.isr, left.elr, left.leader_epoch) == (-1, (), (1,), 1)
            assert metadata.image.brokers[1].is_fenced
            harness.epoch = metadata.broker_epoch
            await metadata.close()

            metadata = await harness.started()
            assert metadata.image.partition(T0) == left
            await harness.register(metadata)
            after = metadata.image.partition(T0)
            assert after is not None
            assert (after.leader, after.isr, after.elr, after.leader_epoch) == (1, (1,), (), 2)
            assert not after.is_recovering

        run(work)

    def test_after_a_kill_its_leadership_is_an_unclean_one(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            metadata = await harness.joined()
            await create(metadata, "t")
            await metadata.close()

            metadata = await harness.joined()
            after = metadata.image.partition(T0)
            assert after is not None
            assert (after.leader, after.isr, after.leader_epoch, after.is_recovering) == (1, (1,), 2, True)

        run(work)

    def test_its_epoch_is_where_it_registered(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            metadata = await harness.started()
            end = metadata.quorum.high_watermark
            await harness.register(metadata)
            assert metadata.broker_epoch == end == metadata.image.brokers[1].epoch

        run(work)

    def test_reports_no_cordoned_directories_before_it_registers(self) -> None:
        """The registration is the previous run's before the broker registers again."""

        async def work() -> None:
            harness = MetadataHarness()
            await harness.stop(await harness.joined())
            metadata = await harness.started()
            await metadata.report_cordoned_directories([harness.directory_id()])
            assert metadata.image.brokers[1].cordoned_log_dirs == frozenset()
            await harness.register(metadata)
            await metadata.report_cordoned_directories([harness.directory_id()])
            assert metadata.image.brokers[1].cordoned_log_dirs == {harness.directory_id()}
            await harness.stop(metadata)

        run(work)

    def test_a_leader_alters_who_is_in_sync(self) -> None:
        async def work() -> None:
            metadata = await MetadataHarness().joined()
            await create(metadata, "t")
            topic = metadata.image.topics["t"]

            def alteration(leader_epoch: int, partition_epoch: int, isr: tuple[int, ...] = (1,)) -> PartitionAlteration:
                return PartitionAlteration(
                    topic_id=topic.id, partition=0, isr=isr, leader_epoch=leader_epoch, partition_epoch=partition_epoch
                )

            answers = await metadata.alter_partitions(
                [alteration(0, 0), alteration(1, 0), alteration(0, -1), alteration(0, 0, (1, 2)), alteration(0, 0, ())]
            )
            assert [answer.outcome.error for answer in answers] == [
                ErrorCode.NONE,
                ErrorCode.NOT_CONTROLLER,
                ErrorCode.INVALID_UPDATE_VERSION,
                ErrorCode.INVALID_REQUEST,
                ErrorCode.INVALID_REQUEST,
            ]
            assert answers[0].state == topic.partitions[0]

        run(work)
