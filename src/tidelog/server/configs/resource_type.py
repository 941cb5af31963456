"""The types of config resources, with Kafka's numbers, and the name of a broker: its number. Pure.

Source: Kafka's ``ConfigResource.Type``.
"""

from __future__ import annotations

import re
from enum import IntEnum

from tidelog.protocol.errors import ApiError, ErrorCode

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)


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


def broker_number(name: str, refusal: str) -> int:
    """Return the number. Raise ApiError(INVALID_REQUEST), with ``refusal`` as message, if the name is not one."""
    number = int(name) if len(name) < 20 and _NUMBER.fullmatch(name) else None
    if number is None or not -(2**31) <= number < 2**31:
        raise ApiError(ErrorCode.INVALID_REQUEST, refusal)
    return number
