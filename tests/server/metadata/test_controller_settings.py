"""Settings, quotas, features and producer ids are changed by the controller: errors, and written records."""

from __future__ import annotations

import math
import time
from typing import Any

import pytest

from server.metadata.images import image_of, partition_of, settings, with_topic
from server.metadata.metadata_harness import setting, topic_resource
from tidelog.model import ConfigError
from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.record.internal_records.schema import ZERO_UUID
from tidelog.server.configs.changes import SettingChange
from tidelog.server.configs.resource_type import ResourceType
from tidelog.server.metadata.controller.brokers import allocate_producer_ids
from tidelog.server.metadata.controller.configs import alter_configs, config_record, replace_configs
from tidelog.server.metadata.controller.decision import MAX_RECORDS, allows_unclean_election, min_isr
from tidelog.server.metadata.controller.feature_updates import feature_record, min_isr_records, update_features
from tidelog.server.metadata.controller.quotas import alter_client_quotas
from tidelog.server.metadata.features import metadata_version_of, release_name
from tidelog.server.metadata.image import ConfigResource, MetadataImage
from tidelog.server.metadata.kraft.bootstrap_records import bootstrap_records, feature_levels
from tidelog.server.metadata.metadata_record import MetadataRecord
from tidelog.server.metadata.requests import FeatureUpdate, QuotaChange, UpgradeType

HOSTILE_PATTERNS = ("a{99999999999}", "a{" + "9" * 5000 + "}", "(" * 4000, "(?<=a*)b", "[")
"""The first three exceed limits of Python's engine: repeat count, number of digits and nesting."""
WIDE_RANGES = "(?i)[" + "".join(f"\x01-{chr(0xE000 + number)}" for number in range(2000)) + "]"
"""A hundred million characters, which take over twenty seconds if ranges follow Unicode."""
MOST_CPU_SECONDS = 3.0
BROKER, BROKERS = ConfigResource(ResourceType.BROKER, "1"), ConfigResource(ResourceType.BROKER, "")
TOPIC = topic_resource("t")


def new_image() -> MetadataImage:
    return with_topic(image_of((1, 2)), partition_of((1, 2)))


def subscription(name: str) -> ConfigResource:
    return ConfigResource(ResourceType.CLIENT_METRICS, name)


def applied(image: MetadataImage, records: Any) -> MetadataImage:
    for record in records:
        image.apply(record)
    return image


class TestConfigs:
    def test_one_refused_change_refuses_its_resource_alone(self) -> None:
        changes = {
            TOPIC: [setting("retention.ms", "1"), setting("segment.ms", "x")],
            BROKERS: [setting("log.retention.ms", "2")],
            topic_resource("u"): [setting("retention.ms", "1")],
            ConfigResource(ResourceType.BROKER, "9"): [setting("log.retention.ms", "2")],
            ConfigResource(ResourceType.BROKER, "x"): [],
        }
        decision = alter_configs(new_image(), settings(), changes)
        assert [(outcome.error, outcome.message) for outcome in decision.result.values()] == [
            (ErrorCode.INVALID_CONFIG, "Invalid value x for configuration segment.ms: Not a number of type LONG"),
            (ErrorCode.NONE, None),
            (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "The topic 'u' does not exist."),
            (ErrorCode.BROKER_ID_NOT_REGISTERED, "No node with id 9 found."),
            (ErrorCode.INVALID_REQUEST, "Unable to parse broker name as a base 10 number."),
        ]
        assert [record.fields["name"] for record in decision.records] == ["log.retention.ms"]

    def test_what_is_replaced_takes_the_rest_back(self) -> None:
        image = new_image()
        applied(image, alter_configs(image, settings(), {TOPIC: [setting("retention.ms", "1")]}).records)
        decision = replace_configs(image, settings(), {TOPIC: {"segment.ms": "5"}})
        assert applied(image, decision.records).configs[TOPIC] == {"segment.ms": "5"}
        assert TOPIC not in applied(image, replace_configs(image, settings(), {TOPIC: {}}).records).configs

    def test_the_least_isr_is_one_of_the_cluster(self) -> None:
        for resource, value in ((BROKER, "1"), (BROKERS, None)):
            change = {resource: [setting("min.insync.replicas", value)]}
            (outcome,) = alter_configs(new_image(), settings(), change).result.values()
            assert outcome.error is ErrorCode.INVALID_CONFIG

    @pytest.mark.parametrize("value", ["/data", None])
    def test_directories_are_cordoned_since_kafka_4_3(self, value: str | None) -> None:
        image = new_image()
        image.apply(feature_record("metadata.version", 29))
        (outcome,) = alter_configs(image, settings(), {BROKER: [setting("cordoned.log.dirs", value)]}).result.values()
        expected = "The cordoned.log.dirs configuration value cannot be set because it requires metadata.version >="
        assert (outcome.error, outcome.message) == (ErrorCode.INVALID_CONFIG, f"{expected} 4.3-IV0")

    @pytest.mark.parametrize("pattern", HOSTILE_PATTERNS, ids=range(len(HOSTILE_PATTERNS)))
    def test_a_pattern_that_is_none_is_refused(self, pattern: str) -> None:
        change = {subscription("s"): [setting("match", f"client_id={pattern}")]}
        (outcome,) = alter_configs(new_image(), settings(), change).result.values()
        assert outcome.error is ErrorCode.INVALID_CONFIG
        assert str(outcome.message).startswith(f"Illegal client matching pattern: client_id={pattern[:9]}")

    def test_a_pattern_of_wide_ranges_takes_no_longer_than_others(self) -> None:
        change = {subscription("s"): [setting("match", f"client_id={WIDE_RANGES}")]}
        begun = time.thread_time()
        (outcome,) = alter_configs(new_image(), settings(), change).result.values()
        assert time.thread_time() - begun < MOST_CPU_SECONDS
        assert outcome.error is ErrorCode.NONE

    def test_patterns_of_one_request_have_only_so_many_characters(self) -> None:
        def change(name: str, length: int) -> dict[ConfigResource, list[SettingChange]]:
            return {subscription(name): [setting("match", "client_id=".ljust(length, "a"))]}

        changes = {**change("s", 8000), **change("t", 193), **change("u", 192)}
        others = {subscription("v"): [setting("metrics", "a")], TOPIC: [setting("retention.ms", "1")]}
        decision = alter_configs(new_image(), settings(), changes | others)
        assert [outcome.error for outcome in decision.result.values()] == [
            ErrorCode.NONE,
            ErrorCode.INVALID_CONFIG,
            *[ErrorCode.NONE] * 3,
        ]

    def test_a_pattern_that_stays_is_not_looked_at_again(self) -> None:
        fields = {"resourceType": ResourceType.CLIENT_METRICS, "resourceName": "s"}
        kept = MetadataRecord("ConfigRecord", {**fields, "name": "match", "value": "client_id=["})
        image = applied(new_image(), [kept])
        change = {subscription("s"): [setting("interval.ms", "1000")]}
        (outcome,) = alter_configs(image, settings(), change).result.values()
        assert outcome.error is ErrorCode.NONE

    def test_a_topics_go_before_the_brokers_before_those_of_all_before_the_file(self) -> None:
        image, file = new_image(), settings(min_insync_replicas="2", unclean_leader_election_enable="true")
        assert (min_isr(image, file, "t"), allows_unclean_election(image, file, "t")) == (2, True)
        for resource, value in ((BROKERS, "false"), (BROKER, "true"), (TOPIC, "false")):
            fields = {"resourceType": resource.type, "resourceName": resource.name}
            record = MetadataRecord(
                "ConfigRecord", {**fields, "name": "unclean.leader.election.enable", "value": value}
            )
            image.apply(record)
            assert allows_unclean_election(image, file, "t") is (value == "true")

    def test_no_more_replicas_have_to_be_in_sync_than_there_are(self) -> None:
        assert min_isr(new_image(), settings(min_insync_replicas="5"), "t") == 2

    @pytest.mark.parametrize(
        ("resource", "cleared"), [(TOPIC, {"t"}), (BROKERS, {"t", "u"})], ids=["the topic's", "the cluster's"]
    )
    def test_another_least_isr_ends_the_eligibility_of_leaders(
        self, resource: ConfigResource, cleared: set[str]
    ) -> None:
        """An eligible replica may lack records that were acknowledged under a smaller minimum."""
        image = image_of((1, 2, 3))
        eligible = partition_of((1, 2, 3), isr=(1,), elr=(2, 3))
        for name in ("t", "u"):
            with_topic(image, eligible, partition_of((1, 2, 3)), name=name)
        other = alter_configs(image, settings(), {resource: [setting("log.retention.ms", "5")]})
        assert "ClearElrRecord" not in [record.name for record in other.records]
        for decision in (
            alter_configs(image, settings(), {resource: [setting("min.insync.replicas", "1")]}),
            replace_configs(image, settings(), {resource: {"min.insync.replicas": "1"}}),
        ):
            after = applied(image.copy(), decision.records)
            assert {name for name, topic in after.topics.items() if not topic.partitions[0].elr} == cleared
            assert {topic.partitions[1].partition_epoch for topic in after.topics.values()} == {0}

    def test_without_the_feature_no_eligibility_ends(self) -> None:
        image = applied(new_image(), [feature_record("eligible.leader.replicas.version", 0)])
        decision = alter_configs(image, settings(), {TOPIC: [setting("min.insync.replicas", "1")]})
        assert [record.name for record in decision.records] == ["ConfigRecord"]

    def test_of_so_many_resources_at_once(self) -> None:
        changes = {topic_resource(str(number)): [setting("retention.ms", "1")] for number in range(MAX_RECORDS + 1)}
        with pytest.raises(ApiError, match="excessively large"):
            alter_configs(new_image(), settings(), changes)
        with pytest.raises(ApiError, match="excessively large"):
            replace_configs(new_image(), settings(), {resource: {} for resource in changes})


class TestQuotas:
    def outcome(self, *parts: tuple[str, str | None], **operations: float | None) -> tuple[ErrorCode, str | None]:
        (outcome,) = alter_client_quotas(image_of(), [QuotaChange(parts, list(operations.items()))]).result
        return outcome

    @pytest.mark.parametrize(
        ("parts", "operations", "reason"),
        [
            ((), {}, "Invalid empty client quota entity"),
            ((("group", "g"),), {}, "Unhandled client quota entity type: group"),
            ((("user", "u"), ("user", "v")), {}, "Invalid client quota entity, duplicate entity entry user"),
            ((("user", "u"),), {"no_quota": 1.0}, "Invalid configuration key no_quota"),
            ((("user", "u"),), {"producer_byte_rate": 0.0}, "Quota producer_byte_rate must be greater than 0"),
            ((("user", "u"),), {"producer_byte_rate": math.nan}, "Quota producer_byte_rate must be greater than 0"),
            ((("user", "u"),), {"producer_byte_rate": 1.5}, "producer_byte_rate cannot be a fractional value."),
            (
                (("ip", "1.2.3.4"),),
                {"connection_creation_rate": 3e9},
                "Proposed value for connection_creation_rate is too large for an INT.",
            ),
            ((("ip", "nowhere"),), {}, "nowhere is not a valid IP or resolvable host."),
            ((("ip", "1.2.3.4"), ("user", "u")), {}, "Invalid quota entity combination"),
            ((("ip", "1.2.3.4"),), {"producer_byte_rate": 1.0}, "Invalid configuration key producer_byte_rate"),
        ],
    )
    def test_that_cannot_be(self, parts: Any, operations: Any, reason: str) -> None:
        code, message = self.outcome(*parts, **operations)
        assert code is ErrorCode.INVALID_REQUEST
        assert message is not None
        assert message.startswith(reason)

    def test_are_set_and_taken_back(self) -> None:
        image = image_of()
        entity = (("user", None), ("client-id", "c"))
        keys = [("producer_byte_rate", 1024.0), ("request_percentage", 12.5)]
        applied(image, alter_client_quotas(image, [QuotaChange(entity, keys)]).records)
        known = (("client-id", "c"), ("user", None))
        assert image.client_quotas == {known: dict(keys)}
        assert not alter_client_quotas(image, [QuotaChange(entity, keys)]).records
        gone = [("producer_byte_rate", None), ("consumer_byte_rate", None)]
        decision = alter_client_quotas(image, [QuotaChange(entity, gone)])
        assert len(decision.records) == 1
        assert applied(image, decision.records).client_quotas == {known: {"request_percentage": 12.5}}

    def test_of_an_entity_that_is_named_twice(self) -> None:
        changes = [QuotaChange((("user", "u"),), [("producer_byte_rate", 1.0)])] * 2
        first, second = alter_client_quotas(image_of(), changes).result
        assert first.error is ErrorCode.NONE
        assert second.message == "Ignoring duplicate entity {'user': 'u'}"

    @pytest.mark.parametrize("count", [0, 1])
    def test_of_so_many_entities_at_once(self, count: int) -> None:
        operations = [("producer_byte_rate", 1.0)] * count
        changes = [QuotaChange((("user", str(number)),), operations) for number in range(MAX_RECORDS + 1)]
        with pytest.raises(ApiError, match="excessively large"):
            alter_client_quotas(new_image(), changes)
        assert len(alter_client_quotas(new_image(), changes[1:]).result) == MAX_RECORDS


class TestFeatures:
    def test_all_or_none(self) -> None:
        updates = [FeatureUpdate("group.version", 0, UpgradeType.SAFE_DOWNGRADE), FeatureUpdate("nothing", 1)]
        decision = update_features(image_of(), settings(), updates)
        assert decision.result.error is ErrorCode.INVALID_UPDATE_VERSION
        assert not decision.records

    def test_metadata_version_goes_down_as_far_as_no_record_changed(self) -> None:
        image = image_of()
        for current, level, is_allowed in (
            (33, 33, True),
            (33, 32, False),
            (32, 31, False),
            (31, 30, True),
            (33, 23, False),
        ):
            image.features["metadata.version"] = current
            update = FeatureUpdate("metadata.version", level, UpgradeType.SAFE_DOWNGRADE)
            drop = [FeatureUpdate("eligible.leader.replicas.version", 0, UpgradeType.SAFE_DOWNGRADE), update]
            assert update_features(image, settings(), drop).result.is_failure is not is_allowed

    def test_eligible_leaders_need_their_release_and_bring_a_setting(self) -> None:
        image = image_of()
        off = [FeatureUpdate("eligible.leader.replicas.version", 0, UpgradeType.SAFE_DOWNGRADE)]
        applied(image, update_features(image, settings(), off).records)
        on = [FeatureUpdate("eligible.leader.replicas.version", 1)]
        applied(image, update_features(image, settings(min_insync_replicas="3"), on).records)
        assert image.configs[BROKERS] == {"min.insync.replicas": "3"}
        old = applied(image_of(), update_features(image_of(), settings(), off).records)
        old.features["metadata.version"] = 22
        assert "depends on metadata.version" in str(update_features(old, settings(), on).result.message)
        old.features["metadata.version"] = 23
        assert not update_features(old, settings(), on).result.is_failure

    def test_eligible_leaders_leave_one_setting_for_all_brokers(self) -> None:
        image = image_of((1, 2))
        set_before = ((BROKER, "3"), (ConfigResource(ResourceType.BROKER, "2"), None), (BROKERS, "2"), (TOPIC, "4"))
        for resource, value in set_before:
            applied(image, [config_record(resource, "min.insync.replicas", value)] if value else [])
            applied(image, [config_record(resource, "cleanup.policy", "delete")])
        applied(image, min_isr_records(image, settings(min_insync_replicas="5")))
        values = {resource: found.get("min.insync.replicas") for resource, found in image.configs.items()}
        assert values == {BROKER: None, ConfigResource(ResourceType.BROKER, "2"): None, BROKERS: "2", TOPIC: "4"}
        assert min_isr_records(image, settings()) == []

    def test_a_broker_that_does_not_support_a_level_is_named(self) -> None:
        image = image_of((1, 2))
        fields = {**image.brokers[2].fields(), "features": []}
        image.apply(MetadataRecord("RegisterBrokerRecord", fields))
        answer = update_features(image, settings(), [FeatureUpdate("share.version", 1)]).result
        assert str(answer.message).endswith("Broker 2 does not support this feature.")

    def test_a_controller_that_does_not_support_a_level_is_named(self) -> None:
        image = image_of()
        features = [{"name": "share.version", "minSupportedVersion": 0, "maxSupportedVersion": 1}]
        fields = {"controllerId": 3, "incarnationId": ZERO_UUID, "zkMigrationReady": False, "endPoints": []}
        image.apply(MetadataRecord("RegisterControllerRecord", {**fields, "features": features}))
        answer = update_features(image, settings(), [FeatureUpdate("share.version", 2)]).result
        assert str(answer.message).endswith("Controller 3 only supports versions 0-1")

    def test_the_quorums_version_stays(self) -> None:
        answer = update_features(image_of(), settings(), [FeatureUpdate("kraft.version", 1)]).result
        assert answer.error is ErrorCode.INVALID_UPDATE_VERSION

    def test_a_new_cluster_of_a_release_has_its_levels(self) -> None:
        levels = feature_levels("4.0", {}, voters_in_log=True)
        assert levels == {"metadata.version": 25, "group.version": 1, "transaction.version": 2, "kraft.version": 1}
        names = [(record.fields["name"], record.fields["featureLevel"]) for record in bootstrap_records(levels)]
        assert names == [("metadata.version", 25), ("group.version", 1), ("transaction.version", 2)]
        with pytest.raises(ConfigError, match=r"replicas.version could not be set to 1 because .* level 23"):
            feature_levels("3.9", {"eligible.leader.replicas.version": 1}, voters_in_log=True)

    @pytest.mark.parametrize(("release", "is_allowed"), [("3.5-IV1", False), ("3.5-IV2", True)])
    def test_scram_users_of_a_new_cluster_need_their_release(self, release: str, is_allowed: bool) -> None:
        levels = feature_levels(release, {}, voters_in_log=True)
        user = MetadataRecord("UserScramCredentialRecord", {"name": "u"})
        if is_allowed:
            assert bootstrap_records(levels, [user])[-1] == user
        else:
            with pytest.raises(ConfigError, match="SCRAM is only supported"):
                bootstrap_records(levels, [user])
        assert user not in bootstrap_records(levels)

    def test_a_patch_release_has_the_level_of_its_release(self) -> None:
        assert [metadata_version_of(release) for release in ("4.0.1", "4.0", "4.0-IV0", " 4.4.0 ")] == [25, 25, 22, 33]
        with pytest.raises(ValueError, match=r"release 5\.0 is not supported"):
            metadata_version_of("5.0")

    def test_releases_have_names(self) -> None:
        assert [release_name(level) for level in (7, 8, 17, 27, 33)] == [
            "3.3-IV3",
            "3.4-IV0",
            "3.7-IV2",
            "4.1-IV1",
            "4.4-IV2",
        ]
        with pytest.raises(ValueError, match="34"):
            release_name(34)


class TestProducerIds:
    def test_are_given_in_blocks_until_there_are_none(self) -> None:
        image = image_of()
        decision = allocate_producer_ids(image, 1, 10)
        assert decision.result == range(1000)
        assert allocate_producer_ids(applied(image, decision.records), 1, 10).result == range(1000, 2000)
        image.next_producer_id = 2**63 - 1000
        with pytest.raises(ApiError, match="Exhausted all producerIds"):
            allocate_producer_ids(image, 1, 10)
