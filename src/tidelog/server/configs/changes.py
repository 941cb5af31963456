"""Changes of a resource's settings: what a request asks for, and what the settings are after it. Pure.

==========  ========================================================================================================
SET         the value takes the place of the old one
DELETE      the key is not set any more
APPEND      of a list: the items that are not in it are put at its end
SUBTRACT    of a list: its items go, each once
==========  ========================================================================================================

A list that is not set begins, for APPEND and SUBTRACT, as the default of its key.
Called by: the controller. Source: Kafka's ``ConfigurationControlManager`` and ``KafkaConfigSchema``.
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
from tidelog.record.internal.schema import LONGEST_STRING
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
    """None for DELETE."""


def list_key(resource_type: ResourceType, name: str) -> Key | None:
    """The key of a list that may be added to and subtracted from: of topics and brokers alone, as in Kafka."""
    key = TOPIC_KEYS.get(name) if resource_type is ResourceType.TOPIC else None
    if resource_type is ResourceType.BROKER:
        key = broker_key(name)
    return key if key is not None and key.type is KeyType.LIST else None


def changed(
    resource_type: ResourceType, before: Mapping[str, str], changes: Iterable[SettingChange]
) -> dict[str, str | None]:
    """The new value of each key that a change is about, None where it is not set any more; ConfigError.

    A value that stays the same is left out, except of a broker: setting it again reads files again that it names.
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
    """The same where ``texts`` take the place of all that was set (Kafka's first AlterConfigs)."""
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
    """Whether the item goes: as often as it is still to go."""
    left[item] -= 1
    return left[item] >= 0


def _items(text: str) -> list[str]:
    return [item for item in text.split(",") if item]
