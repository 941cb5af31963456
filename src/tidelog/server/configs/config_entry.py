"""A config in the form of DescribeConfigs: its value, source and synonyms. Immutable values; pure.

Source: Kafka's ``DescribeConfigsResponse``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from tidelog.config.key import Key
from tidelog.config.value_text import KeyType, Value, format_value

if TYPE_CHECKING:
    from tidelog.protocol.message_types.configs import DescribeConfigsResourceResult
    from tidelog.protocol.message_types.topics import CreatableTopicConfigs


class ConfigSource(IntEnum):
    """The sources, with Kafka's numbers."""

    UNKNOWN = 0
    TOPIC = 1
    DYNAMIC_BROKER = 2
    DYNAMIC_DEFAULT_BROKER = 3
    STATIC_BROKER = 4
    DEFAULT = 5
    DYNAMIC_BROKER_LOGGER = 6
    CLIENT_METRICS = 7
    GROUP = 8


_TYPES = {
    None: 0,
    KeyType.BOOLEAN: 1,
    KeyType.STRING: 2,
    KeyType.INT: 3,
    KeyType.SHORT: 4,
    KeyType.LONG: 5,
    KeyType.DOUBLE: 6,
    KeyType.LIST: 7,
    KeyType.CLASS: 8,
    KeyType.PASSWORD: 9,
}


class ConfigSynonym(NamedTuple):
    name: str
    value: str | None
    """The value, or None if it is sensitive."""
    source: ConfigSource


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigEntry:
    """A config. ``synonyms`` has every place that sets it, the deciding one first; it is empty for a key's default.

    ``key`` is None if no key table has the name. Then the type is unknown, and the value counts as sensitive.
    """

    name: str
    key: Key | None
    value: str | None
    synonyms: tuple[ConfigSynonym, ...] = ()
    is_read_only: bool = False

    @property
    def source(self) -> ConfigSource:
        return self.synonyms[0].source if self.synonyms else ConfigSource.DEFAULT

    @property
    def is_sensitive(self) -> bool:
        return is_sensitive(self.key)

    def created(self) -> CreatableTopicConfigs:
        """Return the fields of a CreateTopics response."""
        return {
            "name": self.name,
            "value": None if self.is_sensitive else self.value,
            "read_only": self.is_read_only,
            "config_source": self.source,
            "is_sensitive": self.is_sensitive,
        }

    def described(self, *, with_synonyms: bool, with_documentation: bool) -> DescribeConfigsResourceResult:
        """Return the fields of a DescribeConfigs response."""
        synonyms = self.synonyms if with_synonyms else ()
        return {
            **self.created(),
            "synonyms": [{"name": one.name, "value": one.value, "source": one.source} for one in synonyms],
            "config_type": _TYPES[self.key.type if self.key else None],
            "documentation": self.key.doc if with_documentation and self.key else None,
        }


def is_sensitive(key: Key | None) -> bool:
    return key is None or key.is_secret


def text_of(value: Value | None) -> str | None:
    """Return a value in Kafka's notation, or None without one."""
    return None if value is None else format_value(value)


def chosen(entries: Iterable[ConfigEntry], names: Iterable[str] | None) -> list[ConfigEntry]:
    """Return the entries with the requested names, or all if there are none."""
    wanted = set(names or ())
    return [entry for entry in entries if not wanted or entry.name in wanted]


def own_synonyms(
    texts: Mapping[str, str], name: str, value: str | None, source: ConfigSource
) -> tuple[ConfigSynonym, ...]:
    """Return the resource's own synonym of ``name``; empty if ``texts`` does not have it."""
    return (ConfigSynonym(name, value, source),) if name in texts else ()
