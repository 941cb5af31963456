"""The name of a broker as a resource: its number. Pure."""

from __future__ import annotations

import re

from tidelog.protocol.errors import ApiError, ErrorCode

_NUMBER = re.compile(r"[+-]?[0-9]+", re.ASCII)


def broker_number(name: str, refusal: str) -> int:
    """ApiError INVALID_REQUEST, with ``refusal``, for what is no number."""
    number = int(name) if len(name) < 20 and _NUMBER.fullmatch(name) else None
    if number is None or not -(2**31) <= number < 2**31:
        raise ApiError(ErrorCode.INVALID_REQUEST, refusal)
    return number
