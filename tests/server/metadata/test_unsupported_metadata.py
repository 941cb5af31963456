"""Metadata that a broker refuses: the error names it, and the directory stays the same byte for byte."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from golden_sets import FORMATS, footprint
from server.harness import running_broker
from server.metadata.left_directory import left
from server.metadata.metadata_harness import MetadataHarness
from tidelog.model import ConfigError, CorruptRecordError, DirectoryError, StorageError, TidelogError
from tidelog.record.internal_records.schema import ZERO_UUID
from tidelog.replication.registration_request import BrokerEndpoint
from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.broker_registration import BrokerRegistration
from tidelog.server.metadata.controller.configs import config_record
from tidelog.server.metadata.controller.feature_updates import feature_record
from tidelog.server.metadata.features import LATEST_METADATA_VERSION, SUPPORTED
from tidelog.server.metadata.image import ConfigResource
from tidelog.server.metadata.kraft.batches import build_records
from tidelog.server.metadata.kraft.metadata_view import read_metadata
from tidelog.server.metadata.kraft.quorum import Voter, Voters
from tidelog.server.metadata.kraft.snapshot import BOOTSTRAP_FILE, BOOTSTRAP_ID, build_snapshot, write_whole
from tidelog.server.metadata.metadata_record import NEWER_RECORD, MetadataRecord, encode_record
from tidelog.storage.checkpoint import META_PROPERTIES_FILE, MetaProperties, QuorumState, uuid_to_text
from tidelog.storage.fs import LOCAL
from tidelog.storage.manager.metadata.cluster_metadata_log import SnapshotId

OTHER_BROKER = MetadataRecord(
    "RegisterBrokerRecord",
    BrokerRegistration(
        id=2,
        epoch=1,
        incarnation_id=uuid.UUID(int=5),
        listeners={"PLAINTEXT": BrokerEndpoint("PLAINTEXT", "other", 9092)},
        features=SUPPORTED,
        rack=None,
        is_fenced=True,
        in_controlled_shutdown=False,
        log_dirs=frozenset({uuid.UUID(int=6)}),
    ).fields(),
)
THERE = ConfigResource(ResourceType.TOPIC, "there")
TIERED = config_record(THERE, "remote.storage.enable", "true")
NEW_ID = ZERO_UUID[:-1] + "Q"


ACL = Acl(Pattern(AclResourceType.TOPIC, "t"), "User:a", "*", Operation.READ, Permission.ALLOW).fields() | {
    "id": NEW_ID
}
USER = {"entityType": "user", "entityName": "a"}
QUOTA = {"key": "producer_byte_rate", "value": 1.0, "remove": False}
PARTITION = {
    "partitionId": 1,
    "replicas": [1],
    "isr": [1],
    "leader": 1,
    "leaderEpoch": 0,
    "partitionEpoch": 0,
    "addingReplicas": [],
    "removingReplicas": [],
}


class TestMetadata:
    @pytest.mark.parametrize(
        ("record", "words"),
        [
            (OTHER_BROKER, "RegisterBrokerRecord of 2.*move their partitions to node 1"),
            (TIERED, "remote.storage.enable=true of there.*remote.log.delete.on.disable"),
            (
                feature_record("metadata.version", 34),
                r"metadata.version is at level 34.*knows 7-33, as Kafka 4.4-IV2 has",
            ),
            (feature_record("share.version", 3), "share.version is at level 3.*knows 0-2"),
            (feature_record("tides.version", 1), "tides.version is at level 1.*does not know that feature"),
            (feature_record("group.version", 2), "group.version is at level 2.*knows 0-1"),
        ],
    )
    def test_of_a_log_that_cannot_be_served(self, tmp_path: Path, record: MetadataRecord, words: str) -> None:
        harness = left(tmp_path, record)
        assert_refused(harness, tmp_path, DirectoryError, words)

    @pytest.mark.parametrize("name", ["../../evil", "/elsewhere/orders", "sub/deep", "..", "", "a\0b", "x" * 300])
    def test_a_topic_whose_name_would_be_a_path(self, tmp_path: Path, name: str) -> None:
        harness = left(tmp_path, MetadataRecord("TopicRecord", {"name": name, "topicId": NEW_ID}))
        assert_refused(
            harness, tmp_path, DirectoryError, re.escape(f"TopicRecord of {name[:60]!r}) whose names are not")
        )

    def test_a_topic_of_the_metadatas_own_name(self, tmp_path: Path) -> None:
        harness = left(tmp_path, MetadataRecord("TopicRecord", {"name": "__cluster_metadata", "topicId": NEW_ID}))
        assert_refused(harness, tmp_path, DirectoryError, "TopicRecord of '__cluster_metadata'")

    def test_everything_is_named_at_once(self, tmp_path: Path) -> None:
        harness = left(tmp_path, OTHER_BROKER, TIERED, feature_record("tides.version", 1))
        for words in ("RegisterBrokerRecord", "remote.storage.enable", "tides.version"):
            assert_refused(harness, tmp_path, DirectoryError, words)

    def test_what_a_snapshot_has_counts_too(self, tmp_path: Path) -> None:
        harness = left(tmp_path, TIERED, settings={"metadata.log.max.record.bytes.between.snapshots": "1"})
        assert_refused(harness, tmp_path, DirectoryError, "remote.storage.enable=true of there")

    def test_a_tiered_topic_that_is_gone_is_none(self, tmp_path: Path) -> None:
        harness = left(
            tmp_path, TIERED, config_record(ConfigResource(ResourceType.TOPIC, "there"), "remote.storage.enable", None)
        )
        harness.made().format()

    def test_a_record_of_a_later_release(self, tmp_path: Path) -> None:
        harness = left(tmp_path)
        append(tmp_path, b"\x01\x7a\x00")
        words = r"\(type 122, version 0\) is not known.*up to 4.4-IV2: use the Kafka release that wrote it"
        assert_refused(harness, tmp_path, DirectoryError, words)

    def test_a_setting_of_a_resource_that_is_not_known(self, tmp_path: Path) -> None:
        harness = left(tmp_path)
        append(tmp_path, encoded("ConfigRecord", {"resourceType": 3, "resourceName": "x", "name": "a", "value": "b"}))
        assert_refused(harness, tmp_path, DirectoryError, "resource type 3 of a config is not known")

    def test_a_known_record_of_a_later_version(self, tmp_path: Path) -> None:
        harness = left(tmp_path)
        value = bytearray(encoded(*OTHER_BROKER))
        value[2] = 9
        append(tmp_path, bytes(value))
        assert_refused(harness, tmp_path, DirectoryError, r"\(RegisterBrokerRecord, version 9\) is not known")

    def test_what_refers_to_a_record_that_was_passed_over_is_passed_over_too(self, tmp_path: Path) -> None:
        harness = left(tmp_path)
        append(tmp_path, b"\x01\x7a\x00")
        append(tmp_path, encoded("RemoveTopicRecord", {"topicId": NEW_ID}))
        assert_refused(harness, tmp_path, DirectoryError, f"type 122.*a record of topic {NEW_ID}, which does not exist")
        view = read_metadata(LOCAL, tmp_path)
        assert view is not None
        assert [found.record.name for found in view.image.skipped_records] == [NEWER_RECORD, "RemoveTopicRecord"]


class TestRecordsThatCannotBe:
    @pytest.mark.parametrize(
        ("name", "fields", "words"),
        [
            ("ClearElrRecord", {"topicName": "absent"}, "topic absent, which does not exist"),
            ("AccessControlEntryRecord", {**ACL, "patternType": PatternType.ANY}, "the pattern type ANY"),
            ("AccessControlEntryRecord", {**ACL, "patternType": PatternType.MATCH}, "the pattern type MATCH"),
            ("ClientQuotaRecord", {**QUOTA, "entity": []}, r"a quota for the entity types \[\]"),
            ("ClientQuotaRecord", {**QUOTA, "entity": [USER, {**USER, "entityName": None}]}, r"\['user', 'user'\]"),
            ("TopicRecord", {"name": "other", "topicId": ZERO_UUID}, "topic other has the id AAAA"),
            ("FeatureLevelRecord", {"name": "metadata.version", "featureLevel": 0}, "metadata.version is set to 0"),
            ("ProducerIdsRecord", {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": -1}, "next producer id is -1"),
            ("ProducerIdsRecord", {"brokerId": 1, "brokerEpoch": 1, "nextProducerId": 2**63 - 1}, "id is 92233720"),
        ],
    )
    def test_it_is_named_and_nothing_is_written(
        self, tmp_path: Path, name: str, fields: dict[str, Any], words: str
    ) -> None:
        harness = left(tmp_path)
        offset = append(tmp_path, encoded(name, fields))
        assert_refused(harness, tmp_path, TidelogError, f"{words}.*__cluster_metadata-0, offset {offset}")

    def test_two_topics_of_one_id(self, tmp_path: Path) -> None:
        harness = left(tmp_path)
        append(tmp_path, encoded("TopicRecord", {"name": "other", "topicId": id_of(tmp_path)}))
        assert_refused(harness, tmp_path, CorruptRecordError, "topic other has the id .* which is zero or in use")

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"replicas": [], "isr": [], "leader": -1}, "there-1: no replicas"),
            ({"directories": [ZERO_UUID, ZERO_UUID]}, "there-1: 1 replicas in 2 directories"),
            ({"leaderEpoch": 2**31 - 1}, "there-1: leader epoch 2147483647"),
            ({"partitionEpoch": 2**31 - 1}, "there-1: .*partition epoch 2147483647"),
            ({"leaderEpoch": -5}, "there-1: leader epoch -5"),
            ({"partitionId": -1}, "there--1: a number below 0"),
        ],
    )
    def test_a_partition_is_named_and_no_record_is_written(
        self, tmp_path: Path, changes: dict[str, Any], words: str
    ) -> None:
        harness = left(tmp_path)
        append(tmp_path, encoded("PartitionRecord", {**PARTITION, "topicId": id_of(tmp_path), **changes}))
        assert_not_loaded(harness, tmp_path, DirectoryError, words)

    def test_what_only_recovery_brings_to_light_is_refused_too(self, tmp_path: Path) -> None:
        """A ``.swap`` file replaces its segment when the log is opened, which is after the first check."""
        harness = left(tmp_path)
        before = metadata_log(tmp_path).read_bytes()
        append(tmp_path, encoded("TopicRecord", {"name": "../../evil", "topicId": NEW_ID}))
        metadata_log(tmp_path).rename(f"{metadata_log(tmp_path)}.swap")
        (tmp_path / "__cluster_metadata-0" / "00000000000000000000.log").write_bytes(before)
        metadata = harness.made()
        metadata.format()
        with pytest.raises(DirectoryError, match="names are not valid"):
            metadata.load()

    @pytest.mark.parametrize("file", [BOOTSTRAP_FILE, f"__cluster_metadata-0/{BOOTSTRAP_ID.file_name}"])
    def test_a_bootstrap_that_only_recovery_makes_the_first_is_refused_too(self, tmp_path: Path, file: str) -> None:
        """Recovery replaces the log's only segment by an empty one, so that the bootstrap's records are the first."""
        harness = left(tmp_path)
        formatted = tmp_path / "__cluster_metadata-0" / BOOTSTRAP_ID.file_name
        evil = encoded("TopicRecord", {"name": "../../evil", "topicId": NEW_ID})
        view = read_metadata(LOCAL, tmp_path)
        assert view is not None
        quorum = view.voters.control_records()
        for path, values in ((formatted, []), (tmp_path / file, [evil])):
            write_whole(LOCAL, path, build_snapshot(values, last_timestamp_ms=0, now_ms=0, quorum=quorum))
        Path(f"{metadata_log(tmp_path)}.swap").touch()
        metadata = harness.made()
        metadata.format()
        with pytest.raises(DirectoryError, match="names are not valid"):
            metadata.load()

    def test_whatever_else_a_record_brings_about_is_the_logs_error(self, tmp_path: Path) -> None:
        harness, topic_id = left(tmp_path), id_of(tmp_path)
        flawed = {**PARTITION, "topicId": topic_id, "directories": [ZERO_UUID, ZERO_UUID]}
        append(tmp_path, encoded("PartitionRecord", flawed))
        offset = append(
            tmp_path, encoded("PartitionChangeRecord", {"partitionId": 1, "topicId": topic_id, "replicas": [2]})
        )
        assert_not_loaded(
            harness, tmp_path, CorruptRecordError, f"a record that is not valid: ValueError.*offset {offset}"
        )

    @pytest.mark.parametrize(("epoch", "gap"), [(2**31 - 1, 0), (1, 2**63 - 1000)])
    def test_a_log_without_room_for_more(self, tmp_path: Path, epoch: int, gap: int) -> None:
        harness = left(tmp_path)
        append(tmp_path, encoded("NoOpRecord", {}), epoch=epoch, gap=gap)
        assert_refused(harness, tmp_path, DirectoryError, f"ends at epoch {epoch} and offset .* leaves hardly any room")

    @pytest.mark.parametrize(
        "text",
        [
            '{"leaderId":Infinity,"leaderEpoch":1,"votedId":1,"data_version":1}',
            "[" * 200_000,
            '{"leaderId":1,"leaderEpoch":99999999999,"votedId":1,"data_version":1}',
        ],
        ids=["infinite", "deep", "far"],
    )
    def test_a_quorum_state(self, tmp_path: Path, text: str) -> None:
        harness = left(tmp_path)
        (tmp_path / "__cluster_metadata-0" / "quorum-state").write_text(text)
        assert_refused(harness, tmp_path, StorageError, "not a readable quorum-state|ends at epoch 99999999999")

    @pytest.mark.parametrize("name", ["9" * 20 + "-0000000001.checkpoint", "0" * 20 + "-9999999999.checkpoint"])
    def test_a_name_that_no_snapshot_can_have_is_passed_over(self, tmp_path: Path, name: str) -> None:
        left(tmp_path)
        directory = tmp_path / "__cluster_metadata-0"
        (snapshot,) = directory.glob("*.checkpoint")
        (directory / name).write_bytes(snapshot.read_bytes())
        end, before = read_end(tmp_path), metadata_log(tmp_path).read_bytes()
        left(tmp_path, topic="more")
        assert read_end(tmp_path) > end
        assert metadata_log(tmp_path).read_bytes().startswith(before)


class TestQuorum:
    def test_of_several_that_stand_in_the_log(self, tmp_path: Path) -> None:
        harness = left(tmp_path, settings={"metadata.log.max.record.bytes.between.snapshots": "1"})
        voters = (voter_of(tmp_path), Voter(2, uuid.uuid4(), (BrokerEndpoint("CONTROLLER", "other", 9093),)))
        new_snapshot(tmp_path, Voters(kraft_version=1, voters=voters))
        assert_refused(harness, tmp_path, DirectoryError, "voters 1, 2.*kafka-metadata-quorum remove-controller")

    def test_whose_voter_is_another_directory(self, tmp_path: Path) -> None:
        harness = left(tmp_path)
        new_snapshot(
            tmp_path, Voters(kraft_version=1, voters=(voter_of(tmp_path)._replace(directory_id=uuid.uuid4()),))
        )
        assert_refused(harness, tmp_path, DirectoryError, "the log is of another directory")

    def test_of_several_that_stand_in_the_quorum_state(self, tmp_path: Path) -> None:
        harness = left(tmp_path, settings={"controller.quorum.voters": "1@localhost:9093"})
        QuorumState(leader_id=2, epoch=9, voters=(1, 2, 3)).write(LOCAL, tmp_path / "__cluster_metadata-0")
        harness.settings.pop("controller.quorum.voters")
        assert_refused(harness, tmp_path, DirectoryError, "voters 1, 2, 3")

    def test_of_a_version_that_is_not_known(self, tmp_path: Path) -> None:
        harness = left(tmp_path)
        new_snapshot(tmp_path, Voters(kraft_version=2, voters=(voter_of(tmp_path),)))
        assert_refused(harness, tmp_path, DirectoryError, "kraft.version 2 .* only 0-1")


class TestDirectory:
    def test_of_a_broker_with_zookeeper(self, golden_copy: Callable[[str, str], Path]) -> None:
        directory = golden_copy(FORMATS, "clean")
        before = footprint(directory)
        with pytest.raises(DirectoryError, match=r"version 0.*tidelog import"), running_broker(directory):
            pass
        assert footprint(directory) == before

    def test_with_partitions_that_nobody_formatted(self, tmp_path: Path) -> None:
        (tmp_path / "orders-0").mkdir()
        harness = MetadataHarness(LOCAL, {"log.dirs": str(tmp_path)})
        assert_refused(harness, tmp_path, DirectoryError, r"partitions \(orders-0\).*tidelog import")

    def test_of_another_node_is_named_first(self, tmp_path: Path) -> None:
        left(tmp_path)
        other = MetadataHarness(LOCAL, {"log.dirs": str(tmp_path)}, node_id=2)
        assert_refused(other, tmp_path, ConfigError, "Stored node id 1")


def assert_refused(harness: MetadataHarness, directory: Path, error: type[TidelogError], words: str) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}, footprint(directory)
    with pytest.raises(error, match=words):
        harness.made().format()
    after = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}, footprint(directory)
    assert after == before


def assert_not_loaded(harness: MetadataHarness, directory: Path, error: type[TidelogError], words: str) -> None:
    """Check that loading fails once all of the log is read, before any record is appended."""
    kept = {path: path.read_bytes() for path in directory.rglob("*") if path.suffix in (".log", ".checkpoint")}
    metadata = harness.made()
    metadata.format()
    with pytest.raises(error, match=words):
        metadata.load()
    assert {path: path.read_bytes() for path in kept} == kept


def encoded(name: str, fields: Mapping[str, Any]) -> bytes:
    return encode_record(MetadataRecord(name, fields), LATEST_METADATA_VERSION)


def append(directory: Path, value: bytes, *, epoch: int = 1, gap: int = 0) -> int:
    """Append a record without a controller, ``gap`` offsets after the end. Return its offset."""
    offset = read_end(directory) + gap
    with metadata_log(directory).open("ab") as file:
        file.write(build_records([value], base_offset=offset, epoch=epoch, now_ms=0))
    return offset


def metadata_log(directory: Path) -> Path:
    (log,) = (directory / "__cluster_metadata-0").glob("*.log")
    return log


def id_of(directory: Path) -> str:
    view = read_metadata(LOCAL, directory)
    assert view is not None
    return uuid_to_text(view.image.topics["there"].id)


def read_end(directory: Path) -> int:
    view = read_metadata(LOCAL, directory)
    assert view is not None
    return view.end_offset


def voter_of(directory: Path) -> Voter:
    properties = MetaProperties.read(LOCAL, directory / META_PROPERTIES_FILE)
    assert properties is not None
    assert properties.directory_id is not None
    return Voter(1, properties.directory_id, (BrokerEndpoint("CONTROLLER", "localhost", 9093),))


def new_snapshot(directory: Path, voters: Voters) -> None:
    """Write the newest snapshot, which contains only the quorum."""
    data = build_snapshot((), last_timestamp_ms=0, now_ms=0, quorum=voters.control_records())
    name = SnapshotId(read_end(directory), 1).file_name
    write_whole(LOCAL, directory / "__cluster_metadata-0" / name, data)
