"""The metadata image: applied records, reported changes, and the records from which it is built again."""

from __future__ import annotations

import uuid

import pytest

from server.metadata.images import TOPIC_ID, directory_of, image_of, partition_of, with_topic
from tidelog.model import CorruptRecordError, TopicPartition, UnsupportedFormatError
from tidelog.record.internal_records.frames import encode_framed
from tidelog.record.internal_records.metadata_tables import MESSAGES
from tidelog.record.internal_records.schema import ZERO_UUID
from tidelog.security.scram_credential import ScramMechanism
from tidelog.server.authorization.acl import Acl, Pattern, Permission
from tidelog.server.authorization.operation import Operation
from tidelog.server.authorization.resource import AclResourceType, PatternType
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.acls import acl_record
from tidelog.server.metadata.image import ConfigResource, MetadataChange, MetadataImage
from tidelog.server.metadata.kraft.snapshot import image_records
from tidelog.server.metadata.metadata_record import NEWER_RECORD, MetadataRecord, decode_record, encode_record
from tidelog.server.metadata.partition_state import UNASSIGNED
from tidelog.storage.checkpoint import uuid_to_text

ID = uuid_to_text(TOPIC_ID)
ACL_ID = uuid_to_text(uuid.UUID(int=77))
ACL = Acl(Pattern(AclResourceType.TOPIC, "t", PatternType.PREFIXED), "User:ann", "*", Operation.READ, Permission.ALLOW)
TOPIC = ConfigResource(ResourceType.TOPIC, "t")


def config(key: str, value: str | None, *, name: str = "t") -> MetadataRecord:
    fields = {"resourceType": 2, "resourceName": name, "name": key, "value": value}
    return MetadataRecord("ConfigRecord", fields)


def quota(value: float, *, remove: bool = False) -> MetadataRecord:
    entity = [{"entityType": "user", "entityName": None}, {"entityType": "client-id", "entityName": "c"}]
    return MetadataRecord("ClientQuotaRecord", {"entity": entity, "key": "k", "value": value, "remove": remove})


def full_image() -> MetadataImage:
    """Return an image with records of every kind."""
    image = with_topic(
        image_of((1, 2), fenced=(2,), racks={1: "r"}),
        partition_of((1, 2), leader_epoch=4, partition_epoch=9),
        partition_of((1, 2), isr=(), elr=(1,), last_known_elr=(1,), is_recovering=True),
    )
    for record in (
        config("retention.ms", "5"),
        config("segment.ms", "6"),
        quota(2.5),
        acl_record(ACL_ID, ACL),
        MetadataRecord("ProducerIdsRecord", {"brokerId": 1, "brokerEpoch": 10, "nextProducerId": 3000}),
        MetadataRecord(
            "RegisterControllerRecord",
            {
                "controllerId": 1,
                "incarnationId": ZERO_UUID,
                "zkMigrationReady": False,
                "endPoints": [{"name": "C", "host": "h", "port": 1, "securityProtocol": 0}],
                "features": [{"name": "f", "minSupportedVersion": 0, "maxSupportedVersion": 1}],
            },
        ),
        MetadataRecord(
            "UserScramCredentialRecord",
            {"name": "u", "mechanism": 1, "salt": b"s", "storedKey": b"k", "serverKey": b"v", "iterations": 4096},
        ),
        MetadataRecord(
            "DelegationTokenRecord",
            {
                "owner": "User:u",
                "requester": "User:u",
                "renewers": [],
                "issueTimestamp": 1,
                "maxTimestamp": 2,
                "expirationTimestamp": 2,
                "tokenId": "token",
            },
        ),
    ):
        image.apply(record)
    return image


def test_it_is_made_again_of_its_records() -> None:
    image = full_image()
    again = MetadataImage(cluster_id=image.cluster_id)
    for record in image_records(image):
        again.apply(decode_record(encode_record(record, image.metadata_version)))
    assert again == image


def test_a_copy_is_another_one() -> None:
    image = full_image()
    before = image.copy()
    image.apply(MetadataRecord("PartitionChangeRecord", {"topicId": ID, "partitionId": 0, "isr": [1]}))
    image.apply(config("retention.ms", None))
    image.apply(quota(0, remove=True))
    assert before == full_image()
    assert image != before


class TestChanges:
    def test_tell_what_was_and_what_is(self) -> None:
        image, change = full_image(), MetadataChange()
        before = image.topics["t"].partitions[0]
        for isr in ([1], [1, 2]):
            fields = {"topicId": ID, "partitionId": 0, "isr": isr}
            image.apply(MetadataRecord("PartitionChangeRecord", fields), change)
        image.apply(config("retention.ms", None), change)
        image.apply(quota(7), change)
        delta = change.partitions[TOPIC_ID, 0]
        assert delta.before == before
        assert delta.after is not None
        assert (delta.after.isr, delta.after.partition_epoch) == ((1, 2), 11)
        assert change.configs == {TOPIC}
        assert change.quotas == {(("client-id", "c"), ("user", None))}
        assert image.configs[TOPIC] == {"segment.ms": "6"}

    def test_of_replicas_without_directories_leave_those_that_stay_where_they_are(self) -> None:
        """Logs with a metadata.version below 17 contain records without directories."""
        image = full_image()
        image.apply(MetadataRecord("PartitionChangeRecord", {"topicId": ID, "partitionId": 0, "replicas": [3, 4, 1]}))
        state = image.topics["t"].partitions[0]
        assert state.directories == (UNASSIGNED, UNASSIGNED, directory_of(1))

    def test_of_a_topic_that_goes(self) -> None:
        image, change = full_image(), MetadataChange()
        image.apply(MetadataRecord("RemoveTopicRecord", {"topicId": ID}), change)
        assert [topic.name for topic in change.deleted_topics] == ["t"]
        assert {number for _, number in change.partitions} == {0, 1}
        assert all(delta.after is None and delta.before is not None for delta in change.partitions.values())
        assert TOPIC not in image.configs
        assert image.partition(TopicPartition("t", 0)) is None
        assert not image.topics_by_id

    def test_of_all_eligible_leaders(self) -> None:
        image = full_image()
        image.apply(MetadataRecord("ClearElrRecord", {"topicName": ""}))
        state = image.topics["t"].partitions[1]
        assert (state.elr, state.last_known_elr, state.partition_epoch) == ((), (), 1)

    def test_of_access_control_lists(self) -> None:
        image, change = full_image(), MetadataChange()
        image.apply(acl_record(ACL_ID, ACL._replace(host="10.0.0.1")), change)
        assert (change.added_acls, change.removed_acls) == ([ACL._replace(host="10.0.0.1")], [ACL])
        image.apply(MetadataRecord("RemoveAccessControlEntryRecord", {"id": ACL_ID}), change)
        assert change.removed_acls == [ACL, ACL._replace(host="10.0.0.1")]
        assert image.acls == {}

    def test_of_an_entry_of_another_release_is_refused(self) -> None:
        record = acl_record(ACL_ID, ACL)
        with pytest.raises(UnsupportedFormatError, match="an ACL has values that this release does not know"):
            full_image().apply(record._replace(fields={**record.fields, "operation": 99}))

    def test_of_what_is_only_kept(self) -> None:
        image = full_image()
        assert len(image.delegation_tokens) == 1
        image.apply(MetadataRecord("RemoveDelegationTokenRecord", {"tokenId": "token"}))
        assert not image.delegation_tokens

    def test_of_users(self) -> None:
        image = full_image()
        credential = image.scram_credentials[ScramMechanism.SHA_256]["u"]
        assert (credential.salt, credential.stored_key, credential.server_key) == (b"s", b"k", b"v")
        image.apply(MetadataRecord("RemoveUserScramCredentialRecord", {"name": "u", "mechanism": 1}))
        assert not image.scram_credentials

    def test_of_a_user_with_a_mechanism_of_another_release(self) -> None:
        fields = {"name": "u", "mechanism": 9, "salt": b"", "storedKey": b"", "serverKey": b"", "iterations": 1}
        with pytest.raises(UnsupportedFormatError, match="SCRAM mechanism 9"):
            full_image().apply(MetadataRecord("UserScramCredentialRecord", fields))


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("TopicRecord", {"name": "t", "topicId": ZERO_UUID}),
        ("RemoveTopicRecord", {"topicId": ZERO_UUID}),
        ("PartitionChangeRecord", {"topicId": ID, "partitionId": 7}),
        ("BrokerRegistrationChangeRecord", {"brokerId": 1, "brokerEpoch": 99, "fenced": 1}),
        ("UnregisterBrokerRecord", {"brokerId": 5, "brokerEpoch": 0}),
        ("RemoveUserScramCredentialRecord", {"name": "u", "mechanism": 2}),
        ("RemoveUserScramCredentialRecord", {"name": "v", "mechanism": 1}),
        ("TopicRecord", {"name": "other", "topicId": ID}),
        ("ClearElrRecord", {"topicName": "absent"}),
        ("AccessControlEntryRecord", {**ACL.fields(), "id": ACL_ID, "patternType": 1}),
        ("ClientQuotaRecord", {"entity": [], "key": "k", "value": 1.0, "remove": False}),
        ("FeatureLevelRecord", {"name": "metadata.version", "featureLevel": 0}),
        ("ProducerIdsRecord", {"brokerId": 1, "brokerEpoch": 10, "nextProducerId": -1}),
    ],
)
def test_a_record_that_contradicts_it_is_an_error(name: str, fields: dict[str, object]) -> None:
    image = full_image()
    with pytest.raises(CorruptRecordError):
        image.apply(MetadataRecord(name, fields))
    assert image == full_image()


class TestVersions:
    @pytest.mark.parametrize(
        ("metadata_version", "versions"),
        [(7, (1, 0, 0)), (8, (2, 0, 0)), (16, (2, 0, 0)), (17, (3, 1, 1)), (23, (3, 2, 2)), (27, (3, 2, 2))],
    )
    def test_follow_the_metadata_version(self, metadata_version: int, versions: tuple[int, int, int]) -> None:
        records = (
            MetadataRecord("RegisterBrokerRecord", {"brokerId": 1, "incarnationId": ZERO_UUID}),
            MetadataRecord("PartitionRecord", {"topicId": ID, "partitionId": 0}),
            MetadataRecord("PartitionChangeRecord", {"topicId": ID, "partitionId": 0}),
        )
        assert tuple(encode_record(record, metadata_version)[2] for record in records) == versions

    def test_of_a_changed_registration_are_as_old_as_can_be(self) -> None:
        def version(**fields: object) -> int:
            record = MetadataRecord("BrokerRegistrationChangeRecord", {"brokerId": 1, "brokerEpoch": 1, **fields})
            return encode_record(record, 27)[2]

        assert [version(fenced=1), version(inControlledShutdown=1), version(logDirs=[ZERO_UUID])] == [0, 1, 2]

    def test_that_are_not_known_are_newer_records_which_no_image_takes(self) -> None:
        value = bytearray(encode_framed(MESSAGES["TopicRecord"], {"name": "t", "topicId": ID}, 0))
        value[2] = 9
        record = decode_record(bytes(value))
        assert record == MetadataRecord(NEWER_RECORD, {"type": "TopicRecord", "version": 9, "value": bytes(value)})
        with pytest.raises(UnsupportedFormatError, match=r"a metadata record \(TopicRecord, version 9\) is not known"):
            full_image().apply(record)


def test_partitions_are_told_with_their_topics() -> None:
    found = [(topic.name, number) for topic, number, _ in full_image().partitions()]
    assert found == [("t", 0), ("t", 1)]
    assert full_image().topics_by_id[uuid.UUID(int=1000)].name == "t"
