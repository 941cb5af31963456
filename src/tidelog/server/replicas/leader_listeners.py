"""Listeners to leader changes of a topic's partitions on this broker.

Coordinators use them for their internal topics.
A new listener is notified at once of the partitions that this broker leads already. Both callbacks must not raise. They
run on the event loop in the order of the changes. A partition's election always precedes its resignation.
Thread rule: the event loop only.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.model import TopicPartition
from tidelog.server.replicas.partition import Partition

OnElected = Callable[[int, int], None]
"""A callback with the partition's number and the leader epoch."""
OnResigned = Callable[[int], None]
"""A callback with the partition's number."""


class _Listener(NamedTuple):
    on_elected: OnElected
    on_resigned: OnResigned


class LeaderListeners:
    def __init__(self) -> None:
        self._listeners: dict[str, list[_Listener]] = {}
        self._led: dict[str, dict[int, int]] = {}
        """The leader epoch of each partition that this broker leads, by topic and number."""

    def add(self, topic: str, on_elected: OnElected, on_resigned: OnResigned) -> None:
        self._listeners.setdefault(topic, []).append(_Listener(on_elected, on_resigned))
        for number, leader_epoch in list(self._led.get(topic, {}).items()):
            on_elected(number, leader_epoch)

    def is_led(self, topic_partition: TopicPartition) -> bool:
        """Return True if the listeners were notified of an election and of no resignation since."""
        return topic_partition.partition in self._led.get(topic_partition.topic, {})

    def elected(self, partition: Partition) -> None:
        topic, number = partition.topic_partition
        self._led.setdefault(topic, {})[number] = partition.leader_epoch
        for listener in self._listeners.get(topic, ()):
            listener.on_elected(number, partition.leader_epoch)

    def resigned(self, partition: Partition) -> None:
        """Notify the listeners. It is a no-op if this broker did not lead the partition."""
        topic, number = partition.topic_partition
        led = self._led.get(topic, {})
        if led.pop(number, None) is None:
            return
        if not led:
            del self._led[topic]
        for listener in self._listeners.get(topic, ()):
            listener.on_resigned(number)
