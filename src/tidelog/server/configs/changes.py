"""Changes of a resource's configs, and the configs after them. Pure.

==========  ========================================================================================================
SET         replaces the value
DELETE      removes the key
APPEND      for a list: adds the missing items at the end
SUBTRACT    for a list: removes the items, each once
==========  ========================================================================================================

For APPEND and SUBTRACT, a list that is not set starts with its key's default. Source: Kafka's
``ConfigurationControlManager`` and ``KafkaConfigSchema``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from enum import IntEnum
from typing import NamedTuple

from tidelog.config.broker_keys import broker_key
from tidelog.config.key import Key
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.value_text import KeyType, format_value
from tidelog.model import ConfigError
from tidelog.record.internal_records.schema import LONGEST_STRING
from tidelog.server.configs.resource_type import ResourceType


class ChangeKind(IntEnum):
    """Kafka's ``AlterConfigOp.OpType``."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


class SettingChange(NamedTuple):
    key: str
    kind: ChangeKind
    value: str | None
    """The value, or None for DELETE."""


def list_key(resource_type: ResourceType, name: str) -> Key | None:
    """Return a list's key that APPEND and SUBTRACT may change: only of topics and brokers, as in Kafka."""
    key = TOPIC_KEYS.get(name) if resource_type is ResourceType.TOPIC else None
    if resource_type is ResourceType.BROKER:
        key = broker_key(name)
    return key if key is not None and key.type is KeyType.LIST else None


def changed(
    resource_type: ResourceType, before: Mapping[str, str], changes: Iterable[SettingChange]
) -> dict[str, str | None]:
    """Return the new value of each changed key, or None for a deleted one. Raise ConfigError if a change is invalid.

    Unchanged values are omitted, except for a broker: setting one again makes the broker read the files it names again.
    """
    after: dict[str, str | None] = {}
    for change in changes:
        value = _value_after(resource_type, before.get(change.key), change)
        if value is not None and len(value.encode()) > LONGEST_STRING:
            raise ConfigError(
                f"The configuration value cannot be added because it exceeds the maximum value size of {LONGEST_STRING}"
                " bytes."
            )
        if value != before.get(change.key) or resource_type is ResourceType.BROKER:
            after[change.key] = value
    return after


def replaced(before: Mapping[str, str], texts: Mapping[str, str]) -> dict[str, str | None]:
    """Return the same if ``texts`` replace all configs (AlterConfigs)."""
    deleted = dict.fromkeys(before.keys() - texts.keys())
    return {key: value for key, value in {**deleted, **texts}.items() if value != before.get(key)}


def _value_after(resource_type: ResourceType, before: str | None, change: SettingChange) -> str | None:
    match change.kind:
        case ChangeKind.SET:
            return change.value
        case ChangeKind.DELETE:
            return None
    key = list_key(resource_type, change.key)
    if key is None:
        raise ConfigError(f"Can't {change.kind.name} to key {change.key} because its type is not LIST.")
    items = _items(format_value(key.default) if before is None else before)
    asked = (change.value or "").split(",")
    if change.kind is ChangeKind.APPEND:
        present = set(items)
        return ",".join([*items, *(item for item in dict.fromkeys(asked) if item not in present)])
    left = Counter(asked)
    return ",".join(item for item in items if not _taken(left, item))


def _taken(left: Counter[str], item: str) -> bool:
    """Return True, and count it, if SUBTRACT removes this item."""
    left[item] -= 1
    return left[item] >= 0


def _items(text: str) -> list[str]:
    return [item for item in text.split(",") if item]
