"""Who wants to know when this broker begins or ends to lead partitions of a topic: coordinators, of their own topics.

A listener that comes late is told at once of what is led already. Both calls must not fail; they are made on the loop,
in the order of the changes, and for one partition an election always before its resignation.
Called by: ReplicaManager. Thread rule: the loop's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from tidelog.model import TopicPartition
from tidelog.server.replicas.partition import Partition

OnElected = Callable[[int, int], None]
"""Called with the partition's number and the leader epoch."""
OnResigned = Callable[[int], None]
"""Called with the partition's number."""


class _Listener(NamedTuple):
    on_elected: OnElected
    on_resigned: OnResigned


class LeaderListeners:
    def __init__(self) -> None:
        self._listeners: dict[str, list[_Listener]] = {}
        self._led: dict[str, dict[int, int]] = {}
        """The leader epoch of each partition that is led, by topic and number."""

    def add(self, topic: str, on_elected: OnElected, on_resigned: OnResigned) -> None:
        self._listeners.setdefault(topic, []).append(_Listener(on_elected, on_resigned))
        for number, leader_epoch in list(self._led.get(topic, {}).items()):
            on_elected(number, leader_epoch)

    def is_led(self, topic_partition: TopicPartition) -> bool:
        """Elected, and not resigned since."""
        return topic_partition.partition in self._led.get(topic_partition.topic, {})

    def elected(self, partition: Partition) -> None:
        topic, number = partition.topic_partition
        self._led.setdefault(topic, {})[number] = partition.leader_epoch
        for listener in self._listeners.get(topic, ()):
            listener.on_elected(number, partition.leader_epoch)

    def resigned(self, partition: Partition) -> None:
        """Nothing where it was not led."""
        topic, number = partition.topic_partition
        led = self._led.get(topic, {})
        if led.pop(number, None) is None:
            return
        if not led:
            del self._led[topic]
        for listener in self._listeners.get(topic, ()):
            listener.on_resigned(number)
