"""Automatic creation of the topics that clients ask for (``auto.create.topics.enable``).

A topic is created in the background, once for all concurrent requests. Those clients get an error and try again. A
crash leaves the topic, or nothing. Thread rule: the event loop only.
Source: Kafka's ``DefaultAutoTopicCreationManager``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from tidelog.model import TidelogError
from tidelog.protocol.errors import ErrorCode
from tidelog.server.topics.internal_topics import automatic_topic
from tidelog.server.topics.node import Node

_log = logging.getLogger(__name__)


class AutomaticTopics:
    def __init__(self, node: Node) -> None:
        self._node = node
        self._under_way: set[str] = set()

    def create(self, names: Iterable[str]) -> None:
        """Start to create missing topics with valid names. Failures are only logged."""
        new = [name for name in names if name not in self._under_way]
        if new:
            self._under_way.update(new)
            self._node.spawn(self._create(new))

    async def _create(self, names: list[str]) -> None:
        topics = [automatic_topic(name, self._node.config) for name in names]
        try:
            for result in await self._node.metadata.create_topics(topics):
                if result.error not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    _log.warning("Cannot create topic %s for a client: %s", result.name, result.message)
        except TidelogError as error:
            _log.warning("Cannot create %d topics for clients: %s", len(names), error)
        finally:
            self._under_way.difference_update(names)
