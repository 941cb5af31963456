"""The removal of secrets from cluster metadata records before they are shown.

============================  =======================================================================================
record                        hidden
============================  =======================================================================================
``UserScramCredentialRecord`` salt, stored key, server key: enough to pose as the broker, or to guess passwords
``ConfigRecord`` of a broker  values of passwords, and of keys that no table knows
============================  =======================================================================================

Delegation tokens have no secret in the metadata. A dump shows a record unchanged if it cannot be decoded; the
inspector's pages do not (``holds_secrets``). ``kafka-dump-log`` hides nothing, so the Kafka format here hides nothing
either. The functions are pure. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.config.broker_keys import broker_key
from tidelog.config.value_text import HIDDEN
from tidelog.model import TidelogError
from tidelog.record.internal_records.frames import decode_framed
from tidelog.record.internal_records.metadata_tables import METADATA_TYPES

_CREDENTIALS = ("salt", "storedKey", "serverKey")
_BROKER = 4
"""Kafka's number for the resource type."""


def without_secrets(record: str | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields with secrets hidden. ``record`` is the record's name; ``fields`` has Kafka's names."""
    hidden: tuple[str, ...] = ()
    if record == "UserScramCredentialRecord":
        hidden = _CREDENTIALS
    elif record == "ConfigRecord" and fields["resourceType"] == _BROKER and fields["value"] is not None:
        key = broker_key(fields["name"])
        hidden = ("value",) if key is None or key.is_secret else ()
    return {**fields, **dict.fromkeys(hidden, HIDDEN)}


def holds_secrets(value: bytes) -> bool:
    """Return True if a record of the metadata log has secrets, or cannot be decoded and so might have some."""
    try:
        decoded = decode_framed(METADATA_TYPES, value)
    except TidelogError:
        return True
    return decoded.fields is None or without_secrets(decoded.name, decoded.fields) != decoded.fields
