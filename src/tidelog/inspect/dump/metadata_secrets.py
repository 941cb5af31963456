"""What of the cluster's metadata is not for every eye, taken out of records before they are shown. Pure; any thread.

============================  =======================================================================================
record                        hidden
============================  =======================================================================================
``UserScramCredentialRecord`` salt, stored key, server key: enough to be the broker for a client, or to guess passwords
``ConfigRecord`` of a broker  values of passwords, and of keys that no table knows
============================  =======================================================================================

Delegation tokens have no secret in the metadata. A record that cannot be decoded is shown as it is.
Called by: dump, as JSON. ``kafka-dump-log`` hides nothing, and so does its format here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tidelog.config.broker_keys import broker_key
from tidelog.config.value_text import HIDDEN

_CREDENTIALS = ("salt", "storedKey", "serverKey")
_BROKER = 4
"""Kafka's number for resources of that type."""


def without_secrets(record: str | None, fields: Mapping[str, Any]) -> dict[str, Any]:
    """``record``: its name; ``fields`` by Kafka's names."""
    hidden: tuple[str, ...] = ()
    if record == "UserScramCredentialRecord":
        hidden = _CREDENTIALS
    elif record == "ConfigRecord" and fields["resourceType"] == _BROKER and fields["value"] is not None:
        key = broker_key(fields["name"])
        hidden = ("value",) if key is None or key.is_secret else ()
    return {**fields, **dict.fromkeys(hidden, HIDDEN)}
