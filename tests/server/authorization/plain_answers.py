"""Make the responses of two brokers comparable: remove values that always differ, and sort lists."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from server.harness import WireClient
from tidelog.protocol.api_key import ApiKey
from tidelog.protocol.schemas import Struct

CLOSED = "the connection is closed"

_WITHOUT_MEANING = frozenset(
    {
        "throttle_time",
        "host",
        "port",
        "cluster_id",
        "log_dir",
        "total_bytes",
        "usable_bytes",
        "partition_size",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "log_end_offset",
        "last_fetch_timestamp",
        "last_caught_up_timestamp",
        "transaction_start_time",
        "log_append_time",
        "offset",
        "base_offset",
        "low_watermark",
        "producer_id",
        "producer_epoch",
        "last_sequence",
        "last_timestamp",
        "nodes",
        "current_voters",
        "leader_epoch",
        "listeners",
        "aborted_transactions",
    }
)
"""Fields that depend on a broker's address and clock, or on earlier requests."""
_MADE_UP = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_DENIED = re.compile(r"^Request .* (is not authorized|needs \w+ permission)\.$", re.DOTALL)
"""Kafka's messages, which contain the internals of its request."""


def answer_to(client: WireClient, api: ApiKey, version: int, values: Mapping[str, Any], **options: Any) -> Any:
    """Return ``CLOSED`` if the broker closed the connection. The client is closed then."""
    try:
        return plain(client.call(api, version, **values), **options)
    except ConnectionError:
        return CLOSED


def plain(value: Any, names: Mapping[str, str] | None = None) -> Any:
    """Convert a response to JSON values. ``names`` maps texts to their replacements."""
    if isinstance(value, Struct):
        fields = ((field.name, getattr(value, field.name)) for field in dataclasses.fields(value))  # type: ignore[arg-type]
        return {name: "" if name in _WITHOUT_MEANING else plain(inner, names) for name, inner in fields}
    if isinstance(value, tuple):
        return sorted((plain(item, names) for item in value), key=json.dumps)
    if isinstance(value, UUID):
        return "an id"
    if isinstance(value, str):
        text = _DENIED.sub("Cluster authorization failed.", _MADE_UP.sub("an id", value))
        return (names or {}).get(text, text)
    return bool(value) if isinstance(value, bytes | bytearray | memoryview) else value


def differences(mine: Any, theirs: Any, place: str = "") -> Iterator[str]:
    """Yield the places at which two responses differ, with both values."""
    if isinstance(mine, dict) and isinstance(theirs, dict):
        for name in mine.keys() | theirs.keys():
            yield from differences(mine.get(name), theirs.get(name), f"{place}.{name}")
    elif isinstance(mine, list) and isinstance(theirs, list) and len(mine) == len(theirs):
        for number, (one, other) in enumerate(zip(mine, theirs, strict=True)):
            yield from differences(one, other, f"{place}[{number}]")
    elif mine != theirs:
        yield f"{place}: ours {mine!r}, Kafka's {theirs!r}"
