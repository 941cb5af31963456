"""Names of topics: which are legal, which are Kafka's own, which cannot stand beside each other. Pure.

Source: Kafka's ``Topic``.
"""

from __future__ import annotations

import re

from tidelog.protocol.errors import ApiError, ErrorCode
from tidelog.server.shown_text import shown

GROUP_METADATA_TOPIC = "__consumer_offsets"
TRANSACTION_STATE_TOPIC = "__transaction_state"
SHARE_GROUP_STATE_TOPIC = "__share_group_state"
CLUSTER_METADATA_TOPIC = "__cluster_metadata"

_INTERNAL = frozenset({GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, SHARE_GROUP_STATE_TOPIC})
_LONGEST = 249
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")


def is_internal(name: str) -> bool:
    """Clients are told; whoever produces to it needs to be a coordinator."""
    return name in _INTERNAL


def check_topic_name(name: str) -> None:
    """ApiError INVALID_TOPIC_EXCEPTION, in Kafka's words."""
    refusal = _refusal(name)
    if refusal is not None:
        raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {refusal}")


def is_legal(name: str) -> bool:
    return _refusal(name) is None


def metric_name(name: str) -> str:
    """Two topics whose names differ in dots and underscores alone have the same: they cannot both be."""
    return name.replace(".", "_")


def _refusal(name: str) -> str | None:
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > _LONGEST:
        return f"the length of '{shown(name)}' is longer than the max allowed length {_LONGEST}"
    if _LEGAL.fullmatch(name) is None:
        return f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return None
