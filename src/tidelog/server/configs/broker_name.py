"""The name of a broker as a config resource: its number. Pure."""

from __future__ import annotations

import re

from tidelog.protocol.errors import ApiError, ErrorCode

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def broker_number(name: str, refusal: str) -> int:
    """Return the number. Raise ApiError(INVALID_REQUEST), with ``refusal`` as message, if the name is not one."""
    number = int(name) if len(name) < 20 and _NUMBER.fullmatch(name) else None
    if number is None or not -(2**31) <= number < 2**31:
        raise ApiError(ErrorCode.INVALID_REQUEST, refusal)
    return number
