"""Topic names: legal names, and names that collide. Pure. Source: Kafka's ``Topic``."""

from __future__ import annotations

import re

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.protocol.shortened_text import shortened

_LONGEST = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def check_topic_name(name: str) -> None:
    """Raise ApiError(INVALID_TOPIC_EXCEPTION), with Kafka's message, if the name is illegal."""
    refusal = _refusal(name)
    if refusal is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {refusal}")


def is_legal(name: str) -> bool:
    return _refusal(name) is None


def metric_name(name: str) -> str:
    """Return the name with underscores for dots. Two topics with the same result cannot both exist."""
    return name.replace(".", "_")


def _refusal(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _LONGEST:
        return f"the length of '{shortened(name)}' is longer than the max allowed length {_LONGEST}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
