"""ACL resources. Immutable values. Source: Kafka's ``ResourceType``, ``PatternType``, ``Resource``."""

from __future__ import annotations

from enum import IntEnum
from typing import Final, NamedTuple


class AclResourceType(IntEnum):
    """The resource types. UNKNOWN stands for every number that Kafka does not know. ANY is for filters."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7

    @classmethod
    def of(cls, number: int) -> AclResourceType:
        return next((known for known in cls if known == number), cls.UNKNOWN)


class PatternType(IntEnum):
    """The types of an ACL's resource name. UNKNOWN stands for unknown numbers. ANY and MATCH are for filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4

    @classmethod
    def of(cls, number: int) -> PatternType:
        return next((known for known in cls if known == number), cls.UNKNOWN)


WILDCARD: Final = "*"
"""A literal name for every resource of a type, and a host for every address."""


class Resource(NamedTuple):
    type: AclResourceType
    name: str


CLUSTER: Final = Resource(AclResourceType.CLUSTER, "kafka-cluster")
"""The only resource of its type."""


def topic(name: str) -> Resource:
    return Resource(AclResourceType.TOPIC, name)


def group(name: str) -> Resource:
    return Resource(AclResourceType.GROUP, name)


def transactional_id(name: str) -> Resource:
    return Resource(AclResourceType.TRANSACTIONAL_ID, name)
