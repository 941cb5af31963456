"""The types of config resources, with Kafka's numbers (``ConfigResource.Type``)."""

from __future__ import annotations

from enum import IntEnum


class ResourceType(IntEnum):
    """The types. UNKNOWN stands for every number that Kafka does not know."""

    UNKNOWN = 0
    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32

    @classmethod
    def of(cls, number: int) -> ResourceType:
        return next((known for known in cls if known == number), cls.UNKNOWN)
