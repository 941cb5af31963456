"""A broker for groups over the wire: short initial rebalances, few partitions, and helpers for clients' requests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import UUID

from server.harness import BrokerHome, WireClient, running_broker
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ErrorCode
from tidelog.protocol.schemas import Struct
from tidelog.server.metadata.requests import NewTopic

SETTINGS = {
    "group_initial_rebalance_delay_ms": "0",
    "offsets_topic_num_partitions": "4",
    "offsets_topic_replication_factor": "1",
    "transaction_state_log_num_partitions": "2",
    "transaction_state_log_replication_factor": "1",
    "transaction_state_log_min_isr": "1",
}


class GroupBroker:
    def __init__(self, harness: BrokerHome, client: WireClient) -> None:
        self.harness = harness
        self.client = client

    @property
    def bootstrap_servers(self) -> str:
        return self.harness.bootstrap

    def coordinator(self, _group: str) -> WireClient:
        """Open a connection to a group's coordinator, which the caller closes."""
        return self.harness.client()

    def make_topic(self, name: str = "t", partitions: int = 2) -> UUID:
        """Create a topic and return its id."""
        new = NewTopic(name=name, partitions=partitions, replication_factor=1)
        (result,) = self.harness.run(lambda: self.harness.broker.controller.create_topics([new]))
        assert not result.error, result
        assert result.topic_id is not None
        return result.topic_id

    def restart(self, *, waits: bool = True) -> None:
        """Restart the broker. If ``waits``, return when all groups are loaded."""
        self.client.close()
        self.harness.restart()
        self.client = self.harness.client()
        if waits:
            self.wait_for_groups()

    def wait_for_groups(self) -> None:
        while self.client.call(ApiKey.LIST_GROUPS).error_code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            pass

    def find(self, group: str = "g") -> Struct:
        """Send FindCoordinator, which creates the offsets topic."""
        found: Struct
        (found,) = self.client.call(ApiKey.FIND_COORDINATOR, key_type=0, coordinator_keys=[group]).coordinators
        return found

    def join(self, member_id: str = "", version: int = 9, **fields: Any) -> Struct:
        given: dict[str, Any] = {
            "group_id": "g",
            "member_id": member_id,
            "session_timeout": 30_000,
            "rebalance_timeout": 60_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"m"}],
        }
        return self.client.call(ApiKey.JOIN_GROUP, version, **(given | fields))

    def stable_member(self) -> tuple[str, int]:
        """Create group ``g`` with one member, and return the member's id and generation."""
        self.find()
        member_id = self.join().member_id
        joined = self.join(member_id)
        assert joined.error_code == 0
        synced = self.client.call(
            ApiKey.SYNC_GROUP,
            group_id="g",
            member_id=member_id,
            generation_id=joined.generation_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=[{"member_id": member_id, "assignment": b"everything"}],
        )
        assert (synced.error_code, bytes(synced.assignment)) == (0, b"everything")
        return member_id, joined.generation_id

    def commit(self, offset: int, version: int = 9, topic: dict[str, Any] | None = None, **fields: Any) -> int:
        """Commit an offset of partition 0 and return the error code."""
        part = {"partition_index": 0, "committed_offset": offset, "committed_metadata": "note"}
        given = {"group_id": "g", "generation_id_or_member_epoch": -1, "member_id": ""}
        topics = [{**(topic or {"name": "t"}), "partitions": [part]}]
        answer = self.client.call(ApiKey.OFFSET_COMMIT, version, topics=topics, **(given | fields))
        return int(answer.topics[0].partitions[0].error_code)

    def fetch(self, group: str = "g", topic: str = "t", number: int = 0, **fields: Any) -> Struct:
        """Return one partition's part of the response."""
        asked = {"group_id": group, "topics": [{"name": topic, "partition_indexes": [number]}]}
        (answer,) = self.client.call(ApiKey.OFFSET_FETCH, 9, groups=[asked], **fields).groups
        assert answer.error_code == 0, answer
        part: Struct = answer.topics[0].partitions[0]
        return part

    def beat(self, member_id: str, epoch: int, **fields: Any) -> Struct:
        given: dict[str, Any] = {"group_id": "k", "member_id": member_id, "member_epoch": epoch}
        if epoch == 0:
            given |= {"rebalance_timeout": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": []}
        return self.client.call(ApiKey.CONSUMER_GROUP_HEARTBEAT, **(given | fields))


@contextmanager
def group_broker(directory: Path, **settings: str) -> Iterator[GroupBroker]:
    with running_broker(directory, **{**SETTINGS, **settings}) as harness:
        groups = GroupBroker(harness, harness.client())
        try:
            yield groups
        finally:
            groups.client.close()
