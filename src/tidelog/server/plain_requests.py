"""Requests of the plain case, which compiled code takes from the frame to the response.

They are a part of the Produce requests (``kernel._plain_produce``). The general way takes all others, and it takes all
requests while quotas or an authorizer must know of them. Both ways leave the same bytes. Thread rule: the event loop
only.
"""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from tidelog.kernel import PlainProduce
from tidelog.model import StorageError, TopicPartition
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.errors import ApiError
from tidelog.protocol.frames import Frame
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.replicas.partition import Partition

if TYPE_CHECKING:
    from tidelog.server.broker import Broker
    from tidelog.server.network.connection import Reply


class PlainRequests:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._produce = PlainProduce(self._find, broker.clock.now_ms)

    def respond(self, frame: Frame, client: ClientConnection) -> Reply:
        """Return the response, or None if the request is not plain. Its frame is unchanged then."""
        broker = self._broker
        if broker.quotas.is_on or broker.authorizer.is_on:
            return None
        try:
            done = self._produce.respond(frame)
        except StorageError:
            return None  # The log has failed, and the general way reports that.
        if done is None:
            return None
        version, response = done
        client.is_exempt = False
        broker.server_metrics.count(ApiKey.PRODUCE, version)
        return [response]

    def _find(self, name: bytes | None, topic_id: bytes | None, number: int) -> Partition | None:
        replicas = self._broker.replicas
        try:
            if topic_id is not None:
                found = replicas.by_topic_id(UUID(bytes=topic_id), number)
            else:
                found = replicas.partition(TopicPartition(str(name or b"", "utf-8"), number))
        except (ApiError, UnicodeDecodeError):
            return None
        return None if found.topic_partition.topic in INTERNAL_TOPICS else found
