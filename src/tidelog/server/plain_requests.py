"""Requests of the plain case, which compiled code takes from the frame to the response.

They are a part of the Produce requests (``kernel._plain_produce``) and of the Fetch requests (``plain_fetches``). The
general way takes all others, and it takes all requests while quotas or an authorizer must know of them. Both ways leave
the same bytes. Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from tidelog.kernel import PlainProduce
from tidelog.model import StorageError
from tidelog.model.internal_topics import INTERNAL_TOPICS
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.frames import Frame
from tidelog.server.network.client_connection import ClientConnection
from tidelog.server.plain_fetches import General, PlainFetches, find_partition
from tidelog.server.replicas.partition import Partition

if TYPE_CHECKING:
    from tidelog.server.broker import Broker
    from tidelog.server.network.connection import Reply


class PlainRequests:
    def __init__(self, broker: Broker, general: General) -> None:
        """``general`` is the general way of requests."""
        self._broker = broker
        self._produce = PlainProduce(self._find_writable, broker.clock.now_ms)
        self._fetches = PlainFetches(broker, general)

    def begin(self, frame: Frame, client: ClientConnection) -> Reply | Awaitable[Reply]:
        """Return the response, now or later, or None if the request is not plain. Its frame is unchanged then.

        Responses to the next of ``client.following`` may come with it. Their frames are removed.
        """
        broker = self._broker
        if broker.quotas.is_on or broker.authorizer.is_on:
            return None
        try:
            done = self._produce.respond(frame, client.following)
        except StorageError:
            return None  # The log has failed, and the general way reports that.
        if done is None:
            return self._fetches.begin(frame, client)
        versions, responses = done
        client.is_exempt = False
        for version in versions:
            broker.server_metrics.count(ApiKey.PRODUCE, version)
        for _ in versions[1:]:
            client.following.popleft()
        return [responses]

    def _find_writable(self, topic: bytes, is_id: bool, number: int) -> Partition | None:
        found = find_partition(self._broker, topic, is_id, number)
        return None if found is None or found.topic_partition.topic in INTERNAL_TOPICS else found
