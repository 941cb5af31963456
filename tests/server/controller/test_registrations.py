"""Registrations, heartbeats and sessions of brokers at a controller, over a socket."""

from __future__ import annotations

import asyncio
import uuid

import pytest

from server.controller.controller_harness import SHORT_SESSION, ControllerHome, RemoteBroker, create_topic
from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.replication.broker_sessions import SessionKey
from tidelog.replication.heartbeat import BrokerHeartbeatRequest
from tidelog.server.handlers.api_groups import CONTROLLER_API_GROUPS
from tidelog.server.metadata.partition_state import NO_LEADER


class TestVersions:
    @pytest.mark.parametrize("version", range(5))
    def test_the_listener_advertises_the_controllers_apis(self, home: ControllerHome, version: int) -> None:
        with home.client() as client:
            software = {"client_software_name": "x", "client_software_version": "1"} if version >= 3 else {}
            response = client.call(ApiKey.API_VERSIONS, version, **software)
        assert {row.api_key: (row.min_version, row.max_version) for row in response.api_keys} == {
            api: VERSIONS[api][:2] for api in CONTROLLER_API_GROUPS
        }

    def test_an_api_of_brokers_is_refused(self, home: ControllerHome) -> None:
        with home.client() as client:
            client.send(ApiKey.METADATA, 12, topics=None)
            assert client.is_closed_by_broker()


class TestRegistration:
    @pytest.mark.parametrize("version", range(5))
    def test_a_broker_is_fenced_until_it_has_caught_up(self, broker: RemoteBroker, version: int) -> None:
        response = broker.register(version) if version >= 2 else broker.register(version, log_dirs=())
        if version < 2:  # without directories it cannot register since metadata.version 3.7
            assert response.error_code == ErrorCode.INVALID_REGISTRATION
            return
        assert response.error_code == ErrorCode.NONE
        assert broker.home.is_fenced(1)
        behind = broker.heartbeat(current_metadata_offset=broker.epoch - 1)
        assert (behind.is_caught_up, behind.is_fenced) == (False, True)
        waiting = broker.heartbeat(want_fence=True)
        assert (waiting.is_caught_up, waiting.is_fenced) == (True, True)
        assert not broker.heartbeat().is_fenced
        assert not broker.home.is_fenced(1)

    def test_another_clusters_broker_is_refused(self, broker: RemoteBroker) -> None:
        assert broker.register(cluster_id="x" * 22).error_code == ErrorCode.INCONSISTENT_CLUSTER_ID
        assert broker.home.node.metadata.image.brokers == {}

    def test_the_same_incarnation_amends_its_registration(self, broker: RemoteBroker) -> None:
        first = broker.join().epoch
        assert broker.register(rack="r").broker_epoch == first
        assert not broker.home.is_fenced(1)
        assert broker.home.node.metadata.image.brokers[1].rack == "r"
        # It is caught up again only with the new record.
        assert not broker.heartbeat(current_metadata_offset=broker.home.end_offset - 2).is_caught_up

    @pytest.mark.parametrize(
        "directories",
        [[], [uuid.UUID(int=5)], [uuid.UUID(int=1001)] * 2, [uuid.UUID(int=1002)]],
        ids=["none", "reserved", "twice", "another broker's"],
    )
    def test_directories_are_checked(
        self, broker: RemoteBroker, other: RemoteBroker, directories: list[uuid.UUID]
    ) -> None:
        other.join()
        assert broker.register(log_dirs=directories).error_code == ErrorCode.INVALID_REGISTRATION

    @pytest.mark.parametrize(
        ("name", "levels"),
        [
            ("metadata.version", (7, 20)),
            ("kraft.version", None),
            ("group.version", None),
            ("transaction.version", (0, 1)),
        ],
    )
    def test_every_finalized_feature_has_to_be_supported(
        self, broker: RemoteBroker, name: str, levels: tuple[int, int] | None
    ) -> None:
        features = {
            "metadata.version": (7, 33),
            "kraft.version": (0, 1),
            "group.version": (0, 1),
            "transaction.version": (0, 2),
            "eligible.leader.replicas.version": (0, 1),
            "share.version": (0, 2),
            "streams.version": (0, 1),
        }
        del features[name]  # an absent feature has level 0
        if levels is not None:
            features[name] = levels
        rows = [
            {"name": feature, "min_supported_version": oldest, "max_supported_version": latest}
            for feature, (oldest, latest) in features.items()
        ]
        assert broker.register(features=rows).error_code == ErrorCode.UNSUPPORTED_VERSION

    def test_unknown_features_of_a_broker_are_kept(self, broker: RemoteBroker) -> None:
        rows = [{"name": "new.version", "min_supported_version": 0, "max_supported_version": 3}]
        known = [
            {"name": name, "min_supported_version": 0, "max_supported_version": 40}
            for name in (*broker.home.node.metadata.image.features, "kraft.version")
        ]
        assert broker.register(features=[*known, *rows]).error_code == ErrorCode.NONE
        assert broker.home.node.metadata.image.brokers[1].features["new.version"] == (0, 3)

    def test_a_controller_registers(self, broker: RemoteBroker) -> None:
        response = broker.client.call(
            ApiKey.CONTROLLER_REGISTRATION,
            controller_id=101,
            incarnation_id=uuid.uuid4(),
            zk_migration_ready=False,
            listeners=[{"name": "CONTROLLER", "host": "h", "port": 1, "security_protocol": 0}],
            features=[{"name": "kraft.version", "min_supported_version": 0, "max_supported_version": 1}],
        )
        assert response.error_code == ErrorCode.NONE
        assert set(broker.home.node.metadata.image.controllers) == {100, 101}


class TestSessions:
    def test_a_heartbeat_of_another_epoch_is_refused(self, broker: RemoteBroker) -> None:
        assert broker.heartbeat().error_code == ErrorCode.STALE_BROKER_EPOCH
        broker.join()
        assert broker.heartbeat(broker_epoch=broker.epoch - 1).error_code == ErrorCode.STALE_BROKER_EPOCH

    def test_a_heartbeat_counts_before_its_turn(
        self, home: ControllerHome, broker: RemoteBroker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        broker.join()
        metadata, contacts = home.node.quorum_controller, []
        sessions = metadata.remote_brokers._sessions
        monkeypatch.setattr(sessions, "record_contact", lambda key, _now_ms: contacts.append(key))

        async def heartbeat_during_another_change() -> None:
            async with metadata._store._turn:
                request = BrokerHeartbeatRequest(broker_id=1, broker_epoch=broker.epoch, metadata_offset=broker.epoch)
                heartbeat = asyncio.ensure_future(metadata.remote_brokers.heartbeat(request))
                await asyncio.sleep(0)
                assert contacts == [SessionKey(1, broker.epoch)]
                assert not heartbeat.done()
            await heartbeat

        home.run(heartbeat_during_another_change)

    def test_controlled_shutdown_waits_until_others_know(
        self, home: ControllerHome, broker: RemoteBroker, other: RemoteBroker
    ) -> None:
        broker.join()
        other.join()
        create_topic(home, "t", [1, 2])
        before = home.end_offset - 1
        other.heartbeat(current_metadata_offset=before)
        assert not broker.heartbeat(want_shut_down=True).should_shut_down
        assert home.partition("t").leader == 2
        assert home.node.metadata.image.brokers[1].in_controlled_shutdown
        other.heartbeat(current_metadata_offset=before)
        assert not broker.heartbeat(want_shut_down=True).should_shut_down  # broker 2 does not lead yet
        other.heartbeat()
        assert broker.heartbeat(want_shut_down=True).should_shut_down
        assert home.is_fenced(1)

    def test_a_broker_that_leads_nothing_stops_at_once(self, broker: RemoteBroker) -> None:
        broker.join()
        response = broker.heartbeat(want_shut_down=True)
        assert (response.should_shut_down, response.is_fenced) == (True, True)

    def test_a_failed_directory_moves_leaders(
        self, home: ControllerHome, broker: RemoteBroker, other: RemoteBroker
    ) -> None:
        more = uuid.UUID(int=1101)
        assert broker.register(log_dirs=[broker.directory_id, more]).error_code == ErrorCode.NONE
        broker.heartbeat()
        other.join()
        create_topic(home, "t", [1, 2])
        topic_id = home.node.metadata.image.topics["t"].id
        self.assign(broker, {broker.directory_id: [topic_id]})
        broker.heartbeat(offline_log_dirs=[broker.directory_id])
        assert home.partition("t").leader == 2
        assert home.node.metadata.image.brokers[1].log_dirs == {more}

    def test_assigned_directories_have_results_of_their_own(
        self, home: ControllerHome, broker: RemoteBroker, other: RemoteBroker
    ) -> None:
        broker.join()
        other.join()
        create_topic(home, "t", [1])
        create_topic(home, "u", [2])
        ids = [home.node.metadata.image.topics[name].id for name in ("t", "u")]
        assert self.assign(broker, {broker.directory_id: [*ids, uuid.uuid4()]}) == [
            ErrorCode.NONE,
            ErrorCode.NOT_LEADER_OR_FOLLOWER,
            ErrorCode.UNKNOWN_TOPIC_ID,
        ]
        # The replica is lost if its directory is not online.
        assert self.assign(broker, {uuid.UUID(int=7777): ids[:1]}) == [ErrorCode.NONE]
        assert home.partition("t").leader == NO_LEADER

    @staticmethod
    def assign(broker: RemoteBroker, directories: dict[uuid.UUID, list[uuid.UUID]]) -> list[int]:
        response = broker.client.call(
            ApiKey.ASSIGN_REPLICAS_TO_DIRS,
            broker_id=broker.number,
            broker_epoch=broker.epoch,
            directories=[
                {
                    "id_": one,
                    "topics": [{"topic_id": topic, "partitions": [{"partition_index": 0}]} for topic in topics],
                }
                for one, topics in directories.items()
            ],
        )
        assert response.error_code == ErrorCode.NONE
        return [topic.partitions[0].error_code for one in response.directories for topic in one.topics]


class TestExpiry:
    @pytest.fixture
    def settings(self) -> dict[str, str]:
        return SHORT_SESSION

    def test_a_second_broker_with_the_id_of_a_live_one_is_refused(
        self, broker: RemoteBroker, home: ControllerHome
    ) -> None:
        broker.join()
        with RemoteBroker(home, 1) as double:
            assert double.register().error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
            home.wait_for(lambda: home.node.metadata.image.brokers[1].is_fenced)  # the first one is silent
            assert double.register().error_code == ErrorCode.NONE
        assert double.epoch > broker.epoch

    def test_a_silent_broker_is_fenced_and_others_lead(
        self, home: ControllerHome, broker: RemoteBroker, other: RemoteBroker
    ) -> None:
        broker.join()
        other.join()
        create_topic(home, "t", [1, 2])
        assert home.partition("t").leader == 1

        def is_fenced() -> bool:
            return home.node.metadata.image.brokers[1].is_fenced

        while not home.call(is_fenced):
            other.heartbeat()
        assert home.partition("t").leader == 2
        assert home.partition("t").isr == (2,)
        assert not home.is_fenced(2)

    def test_a_restarted_controller_gives_full_sessions(self, home: ControllerHome, broker: RemoteBroker) -> None:
        broker.join()
        home.stop()
        home.start()
        assert not home.is_fenced(1)
        with RemoteBroker(home, 1) as double:
            assert double.register().error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION
        home.wait_for(lambda: home.node.metadata.image.brokers[1].is_fenced)


class TestUnregistration:
    def test_a_broker_is_forgotten(self, home: ControllerHome, broker: RemoteBroker, other: RemoteBroker) -> None:
        broker.join()
        other.join()
        create_topic(home, "t", [1, 2])
        response = other.client.call(ApiKey.UNREGISTER_BROKER, broker_id=1)
        assert response.error_code == ErrorCode.NONE
        assert set(home.node.metadata.image.brokers) == {2}
        assert home.partition("t").isr == (2,)
        assert broker.heartbeat().error_code == ErrorCode.STALE_BROKER_EPOCH
        assert broker.join().epoch > other.epoch

    def test_an_unknown_broker_is_an_error(self, broker: RemoteBroker) -> None:
        response = broker.client.call(ApiKey.UNREGISTER_BROKER, broker_id=7)
        assert response.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED
        assert "7" in response.error_message


class TestProducerIds:
    def test_each_broker_gets_blocks_of_its_own(self, broker: RemoteBroker, other: RemoteBroker) -> None:
        broker.join()
        other.join()
        blocks = [
            one.client.call(ApiKey.ALLOCATE_PRODUCER_IDS, broker_id=one.number, broker_epoch=one.epoch)
            for one in (broker, other, broker)
        ]
        assert [(block.producer_id_start, block.producer_id_len) for block in blocks] == [
            (0, 1000),
            (1000, 1000),
            (2000, 1000),
        ]
        stale = broker.client.call(ApiKey.ALLOCATE_PRODUCER_IDS, broker_id=1, broker_epoch=broker.epoch + 1)
        assert stale.error_code == ErrorCode.STALE_BROKER_EPOCH
