"""The metadata log and its snapshots: creation, deletion, and damaged files."""

from __future__ import annotations

from pathlib import Path

import pytest

from server.metadata.images import settings
from server.metadata.metadata_harness import DATA, METADATA, MetadataHarness, create, run
from tidelog.kernel import scan_batches
from tidelog.model import CheckpointError, ConfigError, CorruptRecordError, DirectoryError, LockedError
from tidelog.record.control import ControlType
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.image import MetadataImage
from tidelog.server.metadata.kraft.batches import MetadataBatch, build_records, chunk_batches, read_batches
from tidelog.server.metadata.kraft.bootstrap_records import activation_records
from tidelog.server.metadata.kraft.quorum import Voters, past_voters
from tidelog.server.metadata.kraft.replay import MetadataReplay
from tidelog.server.metadata.kraft.snapshot import build_snapshot, read_snapshot, write_whole
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties
from tidelog.storage.fs import FileSystem, read_whole, write_atomically
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId
from tidelog.storage.segment.segment_reader import Chunk
from tidelog.testing import SimulatedDisk

HOUR_MS = 3_600_000
FREQUENT = {"metadata.log.max.record.bytes.between.snapshots": "500"}
SHORT = {"internal.metadata.log.segment.bytes": "3000"}
ALONE = Voters(kraft_version=0, voters=())


def snapshots(fs: FileSystem) -> list[SnapshotId]:
    """Return the snapshots, except the bootstrap snapshot of formatting."""
    found = (SnapshotId.parse(name) for name in fs.list_names(METADATA))
    return [one for one in found if one is not None and one.offset > 0]


def damage(fs: FileSystem, path: Path, position: int) -> None:
    data = bytearray(read_whole(fs, path))
    data[position] ^= 0xFF
    write_atomically(fs, path, data)


class TestSnapshots:
    def test_are_taken_after_so_many_bytes(self) -> None:
        async def work() -> None:
            harness = MetadataHarness(settings={"metadata.log.max.record.bytes.between.snapshots": "2000"})
            metadata = await harness.joined()
            assert not snapshots(harness.fs)
            await create(metadata, "t", partitions=40)
            await metadata.close()
            assert len(snapshots(harness.fs)) == 1
            again = await harness.started()
            assert len(again.image.topics["t"].partitions) == 40

        run(work)

    def test_are_taken_after_so_long(self) -> None:
        async def work() -> None:
            harness = MetadataHarness(settings={"metadata.log.max.snapshot.interval.ms": str(HOUR_MS)})
            metadata = await harness.joined()
            await create(metadata, "t")
            harness.clock.sleep_ms(HOUR_MS)
            assert not snapshots(harness.fs), "only with something new"
            await create(metadata, "u")
            await metadata.close()
            assert len(snapshots(harness.fs)) == 1

        run(work)

    def test_are_taken_of_what_earlier_runs_wrote_too(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            metadata = await harness.joined()
            await create(metadata, "t", partitions=40)
            await metadata.close()
            again = MetadataHarness(harness.fs, {"metadata.log.max.record.bytes.between.snapshots": "3000"})
            metadata = await again.started()
            await metadata.close()
            assert len(snapshots(harness.fs)) == 1

        run(work)

    def test_have_the_end_of_the_log_and_its_epoch_as_name_and_all_of_the_image(self) -> None:
        async def work() -> None:
            harness = MetadataHarness(settings=FREQUENT)
            metadata = await harness.joined()
            await create(metadata, "t", partitions=20)
            end, image = metadata.quorum.high_watermark, metadata.image.copy()
            await metadata.close()
            newest = snapshots(harness.fs)[-1]
            assert newest == (end, 1)
            replay = MetadataReplay(MetadataImage(cluster_id=image.cluster_id, controller_id=1), ALONE, path=METADATA)
            for batch in read_snapshot(harness.fs, METADATA / newest.file_name):
                replay.apply(batch)
            assert replay._image == image
            assert replay.voters.kraft_version == 1
            assert replay.voters.ids == (1,)

        run(work)

    def test_go_by_size_and_the_log_below_them(self) -> None:
        async def work() -> None:
            harness = MetadataHarness(settings={**FREQUENT, **SHORT, "metadata.max.retention.bytes": "6000"})
            metadata = await harness.joined()
            for number in range(8):
                await create(metadata, f"topic-{number}", partitions=5)
            await metadata.close()
            kept = snapshots(harness.fs)
            names = harness.fs.list_names(METADATA)
            assert 1 <= len(kept) < 8
            deleted = {name for name in names if name.endswith(".checkpoint.deleted")}
            assert deleted
            first_log = min(int(name[:20]) for name in names if name.endswith(".log"))
            assert 0 < first_log <= kept[0].offset
            again = await harness.started()
            assert len(again.image.topics) == 8
            assert not deleted & set(harness.fs.list_names(METADATA))

        run(work)

    def test_go_by_age(self) -> None:
        async def work() -> None:
            harness = MetadataHarness(settings={**FREQUENT, **SHORT, "metadata.max.retention.ms": str(HOUR_MS)})
            metadata = await harness.joined()
            await create(metadata, "t", partitions=20)
            old = snapshots(harness.fs)
            harness.clock.sleep_ms(HOUR_MS + 1)
            await create(metadata, "u", partitions=20)
            await metadata.close()
            assert snapshots(harness.fs)
            assert not set(snapshots(harness.fs)) & set(old)

        run(work)

    def test_their_files_go_after_a_minute(self) -> None:
        async def work() -> None:
            harness = MetadataHarness(settings={**FREQUENT, **SHORT, "metadata.max.retention.bytes": "1"})
            metadata = await harness.joined()
            for name in ("t", "u", "v"):
                await create(metadata, name, partitions=20)
            assert any(name.endswith(".deleted") for name in harness.fs.list_names(METADATA))
            harness.clock.sleep_ms(60_001)
            assert not any(name.endswith(".deleted") for name in harness.fs.list_names(METADATA))
            await metadata.close()

        run(work)

    def test_that_were_not_finished_are_removed(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            await (await harness.joined()).close()
            part = METADATA / f"{SnapshotId(9, 1).file_name}.part"
            write_whole(harness.fs, part, b"half")
            await (await harness.started()).close()
            assert not harness.fs.exists(part)

        run(work)

    @pytest.mark.parametrize("cut", [1, 80, 200])
    def test_that_are_damaged_are_an_error(self, cut: int) -> None:
        disk = SimulatedDisk()
        disk.make_dir(DATA)
        data = build_snapshot([b"\x01\x0c\x00\x02f\x00\x01\x00"] * 3, last_timestamp_ms=5, now_ms=6)
        path = DATA / SnapshotId(3, 1).file_name
        write_whole(disk, path, data)
        assert sum(len(batch.records) for batch in read_snapshot(disk, path)) == 3
        write_whole(disk, path, data[:-cut])
        with pytest.raises(CheckpointError):
            read_snapshot(disk, path)
        write_whole(disk, path, data)
        damage(disk, path, len(data) - 10)
        with pytest.raises(CheckpointError):
            read_snapshot(disk, path)


class TestLog:
    def test_ends_before_the_first_damaged_batch(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            metadata = await harness.joined()
            await create(metadata, "t")
            size = len(read_whole(harness.fs, METADATA / f"{0:020}.log"))
            await create(metadata, "u")
            await metadata.close()
            damage(harness.fs, METADATA / f"{0:020}.log", size + 70)
            again = await harness.started()
            assert list(again.image.topics) == ["t"]

        run(work)

    def test_without_its_beginning_needs_a_snapshot(self) -> None:
        async def work() -> None:
            harness = MetadataHarness(settings={**FREQUENT, **SHORT, "metadata.max.retention.bytes": "1"})
            metadata = await harness.joined()
            for name in ("t", "u", "v"):
                await create(metadata, name, partitions=20)
            await metadata.close()
            for one in snapshots(harness.fs):
                harness.fs.remove(METADATA / one.file_name)
            with pytest.raises(CheckpointError, match="but no snapshot has the records before it"):
                harness.made().load()

        run(work)

    def test_a_snapshot_above_its_end_takes_its_place(self) -> None:
        async def work() -> None:
            harness = MetadataHarness(settings=FREQUENT)
            metadata = await harness.joined()
            await create(metadata, "t", partitions=20)
            end = metadata.quorum.high_watermark
            await metadata.close()
            with harness.fs.open(METADATA / f"{0:020}.log", write=True) as file:
                file.truncate(500)
            again = await harness.started()
            assert len(again.image.topics["t"].partitions) == 20
            assert again.quorum.high_watermark > end

        run(work)

    def test_has_an_epoch_above_all_before_even_without_its_quorum_state(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            for _ in range(3):
                await (await harness.started()).close()
            harness.fs.remove(METADATA / "quorum-state")
            assert (await harness.started()).quorum.epoch == 4

        run(work)

    def test_begins_each_epoch_with_its_leader(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            for _ in range(2):
                await (await harness.started()).close()
            batches = list(read_batches(read_whole(harness.fs, METADATA / f"{0:020}.log")))
            first = [next(batch for batch in batches if batch.epoch == epoch) for epoch in (1, 2)]
            leaders = [batch.control_records[0] for batch in first]
            assert {record.type for record in leaders} == {ControlType.LEADER_CHANGE}
            assert [record.fields["leaderId"] for record in leaders] == [1, 1]

        run(work)

    def test_records_of_some_types_are_skipped(self) -> None:
        values = [b"\x01\x0c\x00\x02f\x00\x01\x00", b"\x01\x08\x00rubbish"]
        data = build_records(values, base_offset=0, epoch=1, now_ms=7)
        chunk = Chunk(memoryview(data), scan_batches(data), 0)
        (batch,) = chunk_batches(chunk, skipped_types={8})
        assert [record.name for record in batch.records] == ["FeatureLevelRecord"]

    def test_a_record_without_a_type_is_damaged(self) -> None:
        data = build_records([b"\x01"], base_offset=0, epoch=1, now_ms=7)
        with pytest.raises(CorruptRecordError):
            list(chunk_batches(Chunk(memoryview(data), scan_batches(data), 0), skipped_types={8}))

    def test_a_single_record_at_offset_0_is_read(self) -> None:
        data = build_records([b"\x01\x0c\x00\x02f\x00\x01\x00"], base_offset=0, epoch=1, now_ms=7)
        assert [one.last_offset for one in chunk_batches(Chunk(memoryview(data), scan_batches(data), 0))] == [0]

    def test_past_voters_are_not_in_the_log(self) -> None:
        voters = past_voters([4, 7])
        assert (voters.kraft_version, voters.ids, voters.control_records()) == (0, (4, 7), [])

    def test_batches_that_are_cut_are_left_out(self) -> None:
        values = [b"\x01\x0c\x00\x02f\x00\x01\x00"]
        data = b"".join(build_records(values, base_offset=number, epoch=1, now_ms=7) for number in range(3))
        assert [batch.base_offset for batch in read_batches(data[:-1])] == [0, 1]
        assert [batch.base_offset for batch in read_batches(data, start_offset=1)] == [1, 2]
        broken = bytearray(data)
        broken[len(data) // 2] ^= 1
        with pytest.raises(CorruptRecordError):
            list(read_batches(broken))


def batch_of(*names: str, **fields: object) -> MetadataBatch:
    records = tuple(MetadataRecord(name, fields) for name in names)
    return MetadataBatch(0, len(names) - 1, 1, 0, records, ())


FEATURE = ("group.version", 1)
LEVEL = feature_record("metadata.version", 27)


class TestTransactions:
    def test_count_as_a_whole(self) -> None:
        image = MetadataImage()
        replay = MetadataReplay(image, ALONE, path=METADATA)
        replay.apply(batch_of("BeginTransactionRecord"))
        replay.apply(MetadataBatch(1, 1, 1, 0, (feature_record(*FEATURE),), ()))
        assert replay.is_in_transaction
        assert replay.is_empty
        assert not image.features
        replay.apply(batch_of("EndTransactionRecord"))
        assert image.features == dict([FEATURE])
        assert not replay.is_empty

    def test_that_are_aborted_never_were(self) -> None:
        replay = MetadataReplay(MetadataImage(), ALONE, path=METADATA)
        replay.apply(batch_of("BeginTransactionRecord"))
        replay.apply(MetadataBatch(1, 1, 1, 0, (feature_record(*FEATURE),), ()))
        replay.apply(batch_of("AbortTransactionRecord"))
        assert replay.is_empty
        assert not replay.is_in_transaction

    def test_that_nobody_ended_are_aborted_by_the_next_controller(self) -> None:
        replay = MetadataReplay(MetadataImage(), ALONE, path=METADATA)
        replay.apply(batch_of("BeginTransactionRecord"))
        names = [record.name for record in activation_records(replay, [LEVEL], settings())]
        assert names == [
            "AbortTransactionRecord",
            "BeginTransactionRecord",
            "FeatureLevelRecord",
            "EndTransactionRecord",
        ]
        replay.apply(batch_of("AbortTransactionRecord"))
        replay.apply(MetadataBatch(1, 1, 1, 0, (LEVEL,), ()))
        replay.apply(batch_of("BeginTransactionRecord"))
        assert [record.name for record in activation_records(replay, [LEVEL], settings())] == ["AbortTransactionRecord"]

    def test_are_not_of_releases_before_3_6(self) -> None:
        old = feature_record("metadata.version", 12)
        assert activation_records(MetadataReplay(MetadataImage(), ALONE, path=METADATA), [old], settings()) == [old]


class TestFormatting:
    def test_a_new_directory_beside_others_gets_its_files(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            await (await harness.joined()).close()
            other = Path("/other")
            wider = MetadataHarness(harness.fs, {"log.dirs": f"{DATA},{other}"})
            metadata = await wider.joined()
            first, second = (MetaProperties.read(harness.fs, path / META_PROPERTIES_FILE) for path in (DATA, other))
            assert first is not None
            assert second is not None
            assert first.cluster_id == second.cluster_id == metadata.image.cluster_id
            assert first.directory_id != second.directory_id
            assert harness.fs.list_names(other) == [".lock", "meta.properties"]
            assert metadata.image.brokers[1].log_dirs == {first.directory_id, second.directory_id}

        run(work)

    def test_a_directory_of_another_cluster_is_refused(self) -> None:
        fs = SimulatedDisk()
        for path in ("/one", "/two"):
            MetadataHarness(fs, {"log.dirs": path}).made().format()
        with pytest.raises(ConfigError, match=r"Invalid cluster\.id in: /two"):
            MetadataHarness(fs, {"log.dirs": "/one,/two"}).made().format()

    def test_a_metadata_log_without_its_properties_is_not_written_over(self) -> None:
        async def work() -> None:
            harness = MetadataHarness()
            await (await harness.joined()).close()
            harness.fs.remove(DATA / META_PROPERTIES_FILE)
            with pytest.raises(DirectoryError, match=r"without meta\.properties"):
                harness.made().format()

        run(work)

    def test_the_metadata_may_have_a_directory_of_its_own(self) -> None:
        async def work() -> None:
            harness = MetadataHarness(settings={"metadata.log.dir": "/metadata"})
            metadata = await harness.joined()
            assert harness.fs.exists(Path("/metadata/__cluster_metadata-0/quorum-state"))
            assert "__cluster_metadata-0" not in harness.fs.list_names(DATA)
            with pytest.raises(LockedError):
                harness.made().load()
            await metadata.close()
            harness.made().load()

        run(work)
