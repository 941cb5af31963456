"""A broker's configuration: Kafka's broker keys with typed values and their origins.

An immutable value, made of layers of which later ones win: Kafka's defaults, a properties file, overrides, run-time
changes for every broker, run-time changes for this one. The constructor checks each text, then all values together. It
raises ConfigError with every mistake. Unknown keys cause warnings. Known keys without effect in tidelog are logged
once, at info. Passwords are kept and never shown.

The keys that a Kafka broker needs to start (``node.id``, ``process.roles``, matching listeners) are not required here,
because a properties file is also read only for its log settings. ``missing`` names the required keys that are not set.

A broker with ``zookeeper.connect`` and without ``process.roles`` keeps its metadata in ZooKeeper. Only it has the keys
of ``zookeeper_keys``, and it requires none of Kafka 4's.
Source: Kafka's ``KafkaConfig`` and ``DynamicBrokerConfig``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Self

from tidelog.config.broker_keys import BROKER_KEYS, ZOOKEEPER_BROKER_KEYS, broker_key, looks_like_key, unknown_key_text
from tidelog.config.checks import ALL_LOG_DIRS, check_broker, number
from tidelog.config.dynamic_changes import check_change, check_names
from tidelog.config.key import Key
from tidelog.config.origin import Origin, OriginKind, Setting, read_server_properties
from tidelog.config.synonyms import TOPIC_SYNONYMS, Synonym, broker_synonyms, first_set, in_topic_units
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.value_text import Value
from tidelog.config.zookeeper_keys import ALL_TOPIC_KEYS
from tidelog.model import ConfigError

_log = logging.getLogger(__name__)

_PREFIX_KEYS = ("remote.log.metadata.manager.impl.prefix", "remote.log.storage.manager.impl.prefix")
"""The keys whose values are prefixes of plug-ins' keys."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerConfig:
    """``config["log.roll.hours"]`` is a key's own value, set or default, or None. It raises KeyError for an unknown
    key.

    ``topic_defaults``, ``log_dirs`` and ``node_id`` combine several keys. Only ``shown`` reads a key without effect.
    Any other read raises AssertionError, because the key's row in the table would be wrong.
    """

    static: Mapping[str, Setting] = field(default_factory=dict)
    """The settings at the start, by key."""
    dynamic_defaults: Mapping[str, Setting] = field(default_factory=dict)
    """The run-time changes for every broker."""
    dynamic: Mapping[str, Setting] = field(default_factory=dict)
    """The run-time changes for this broker."""
    settings: Mapping[str, Setting] = field(init=False, repr=False, compare=False)
    """The settings of the layers together; the last layer wins."""
    keys: Mapping[str, Key] = field(init=False, repr=False, compare=False)
    """The keys that this broker has."""
    warnings: tuple[str, ...] = field(init=False, default=())
    """Sentences about unknown keys, and about ``config.providers``."""
    without_effect: tuple[str, ...] = field(init=False, default=())
    """Kafka's keys that are set but have no effect in tidelog."""
    _values: Mapping[str, Value | None] = field(init=False, repr=False, compare=False)
    _topic_defaults: Mapping[str, Value] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "settings", {**self.static, **self.dynamic_defaults, **self.dynamic})
        object.__setattr__(self, "keys", ZOOKEEPER_BROKER_KEYS if self.uses_zookeeper else BROKER_KEYS)
        values, mistakes = _parsed(self.settings, self.keys)
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "warnings", tuple(self._warnings()))
        object.__setattr__(self, "without_effect", tuple(self._without_effect()))
        if not mistakes:
            object.__setattr__(self, "_topic_defaults", self._found_topic_defaults())
            # Kafka copies ``node.id`` to its old name ``broker.id`` if only ``node.id`` is set.
            ids = {} if "broker.id" in self.settings else {"broker.id": values["node.id"]}
            try:
                check_broker(values | ids, self._topic_defaults, self.log_dirs)
            except ConfigError as error:
                mistakes.append(error.message)
        if mistakes:
            raise ConfigError("; ".join(mistakes))

    @classmethod
    def load(cls, path: Path | None = None, overrides: Mapping[str, str] | None = None) -> Self:
        """Read a properties file, if given, under ``overrides``.

        Raise ConfigError if the file cannot be read, or with every invalid value and its line.
        """
        settings = {} if path is None else read_server_properties(path)
        for key, text in (overrides or {}).items():
            settings[key] = Setting(text=text, origin=Origin(kind=OriginKind.OVERRIDE, key=key))
        return cls(static=settings)

    def with_changes(self, changes: Mapping[str, str | None], *, cluster_wide: bool = False) -> Self:
        """Return the configuration after run-time changes; None removes a change. Raise ConfigError if Kafka refuses
        one.

        ``cluster_wide`` makes the changes for every broker of the cluster instead of this one.
        """
        check_names(changes, cluster_wide=cluster_wide, keys=self.keys)
        layer = self.dynamic_defaults if cluster_wide else self.dynamic
        texts = {**{name: setting.text for name, setting in layer.items()}, **changes}
        return self._with_layer(
            {name: text for name, text in texts.items() if text is not None}, cluster_wide=cluster_wide
        )

    def with_dynamic(self, texts: Mapping[str, str], *, cluster_wide: bool = False) -> Self:
        """Return the configuration with ``texts`` in place of all earlier run-time changes of the layer.

        Raise ConfigError if Kafka refuses one of them. ``cluster_wide`` has the meaning of ``with_changes``.
        """
        check_names(texts, cluster_wide=cluster_wide, keys=self.keys)
        return self._with_layer(texts, cluster_wide=cluster_wide)

    def with_dynamic_layers(self, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> Self:
        """Return the configuration with new layers of run-time changes, for a broker's start.

        Raise ConfigError for invalid settings. Limits on changes, such as for thread pools, do not apply.
        """
        check_names(cluster_wide, cluster_wide=True, keys=self.keys)
        check_names(own, cluster_wide=False, keys=self.keys)
        return replace(
            self,
            dynamic_defaults=_layer(cluster_wide, OriginKind.DYNAMIC_DEFAULT),
            dynamic=_layer(own, OriginKind.DYNAMIC),
        )

    def _with_layer(self, texts: Mapping[str, str], *, cluster_wide: bool) -> Self:
        if cluster_wide:
            after = replace(self, dynamic_defaults=_layer(texts, OriginKind.DYNAMIC_DEFAULT))
        else:
            after = replace(self, dynamic=_layer(texts, OriginKind.DYNAMIC))
        check_change(self._values, after._values, retention_ms=number(after.topic_defaults(), "retention.ms"))
        return after

    def __getitem__(self, key: str) -> Value | None:
        self.keys[key].require_effect()
        return self._values[key]

    def shown(self, key: str) -> Value | None:
        """Return the value of any key, for people and clients that ask for it."""
        return self._values[key]

    def number(self, key: str) -> int:
        """Return the value of a SHORT, INT or LONG key that is set or has a default."""
        value = self[key]
        assert isinstance(value, int), key
        return value

    def flag(self, key: str) -> bool:
        """Return the value of a BOOLEAN key."""
        value = self[key]
        assert isinstance(value, bool), key
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the items of a LIST key; empty without a value and default."""
        value = self[key]
        assert isinstance(value, tuple | None), key
        return value or ()

    def listener_value(self, name: str, key: str) -> Value | None:
        """Return the value of ``key`` that ``name`` sets for one listener or mechanism; None if it is not set."""
        self.keys[key].require_effect()
        setting = self.settings.get(name)
        return None if setting is None else self.keys[key].parse(setting.text)

    def origin(self, key: str) -> Origin:
        setting = self.settings.get(key)
        return Origin(kind=OriginKind.DEFAULT, key=key) if setting is None else setting.origin

    def decided_by(self, key: str) -> str:
        """Return the synonym whose value counts for ``key``: the first that is set, else the first with a default."""
        names = broker_synonyms(key)
        is_set = next((name for name in names if name in self.settings), None)
        return is_set or next((name for name in names if self._values[name] is not None), key)

    @property
    def topic_keys(self) -> Mapping[str, Key]:
        """The settings that topics of this broker can have."""
        return ALL_TOPIC_KEYS if self.uses_zookeeper else TOPIC_KEYS

    def topic_default(self, topic_key: str) -> tuple[Value, Origin] | None:
        """Return a topic setting's default and its origin, or None if no broker key sets it."""
        synonyms = TOPIC_SYNONYMS.get(topic_key)
        if synonyms is None:
            return None
        synonym = first_set(synonyms, self.settings) or _with_default(synonyms)
        value = self._values[synonym.name]
        assert value is not None, synonym
        return in_topic_units(topic_key, synonym, value), self.origin(synonym.name)

    def topic_defaults(self) -> dict[str, Value]:
        """Return the topic settings from the broker's keys, like Kafka's ``extractLogConfigMap``."""
        return dict(self._topic_defaults)

    def _found_topic_defaults(self) -> dict[str, Value]:
        found = ((topic_key, self.topic_default(topic_key)) for topic_key in TOPIC_SYNONYMS)
        return {topic_key: default[0] for topic_key, default in found if default is not None}

    @property
    def log_dirs(self) -> tuple[str, ...]:
        """Paths as they were written."""
        return self.texts(self.decided_by("log.dirs"))

    @property
    def cordoned_log_dirs(self) -> tuple[str, ...]:
        """The log directories that get no new partitions (KIP-1066)."""
        cordoned = self.texts("cordoned.log.dirs")
        return self.log_dirs if cordoned == (ALL_LOG_DIRS,) else cordoned

    @property
    def uses_zookeeper(self) -> bool:
        """True for a broker that keeps its metadata in ZooKeeper."""
        return "zookeeper.connect" in self.static and "process.roles" not in self.static

    @property
    def node_id(self) -> int | None:
        """The node's id, or None if it is not set: ZooKeeper can then generate it."""
        value = self[self.decided_by("node.id")]
        return value if isinstance(value, int) and value >= 0 else None

    @property
    def missing(self) -> tuple[str, ...]:
        """Required keys that are not set; a Kafka broker does not start without them."""
        if self.uses_zookeeper:
            return ()
        required = (key.name for key in BROKER_KEYS.values() if key.required)
        return tuple(name for name in required if (self.node_id if name == "node.id" else self._values[name]) is None)

    def log_warnings(self) -> None:
        """Log the warnings and the keys without effect, once."""
        for warning in self.warnings:
            _log.warning("%s", warning)
        if self.without_effect:
            _log.info("known to Kafka, without effect in tidelog: %s", ", ".join(self.without_effect))

    def _warnings(self) -> Iterator[str]:
        prefixes = tuple(str(self._values[key]) for key in _PREFIX_KEYS)
        for name, setting in self.settings.items():
            if name == "config.providers":
                yield f"{name} has no effect: values are read literally ({setting.origin})"
            elif broker_key(name, self.keys) is not None or name.startswith(prefixes):
                continue
            elif not looks_like_key(name):
                yield f"the line is no setting, and has no effect ({setting.origin})"
            else:
                yield f"{unknown_key_text(name)} ({setting.origin})"

    def _without_effect(self) -> Iterator[str]:
        for name in self.settings:
            key = broker_key(name, self.keys)
            if key is not None and not key.used:
                yield name


def _place(origin: Origin) -> str:
    """Return a mistake's place for its message; empty for a run-time change, whose client knows it."""
    return "" if origin.kind in (OriginKind.DYNAMIC, OriginKind.DYNAMIC_DEFAULT) else f" ({origin})"


def _layer(texts: Mapping[str, str], kind: OriginKind) -> dict[str, Setting]:
    return {name: Setting(text=text, origin=Origin(kind=kind, key=name)) for name, text in texts.items()}


def _with_default(synonyms: tuple[Synonym, ...]) -> Synonym:
    """Return the synonym whose default counts if none of them is set."""
    return next(synonym for synonym in synonyms if BROKER_KEYS[synonym.name].default is not None)


def _parsed(settings: Mapping[str, Setting], keys: Mapping[str, Key]) -> tuple[dict[str, Value | None], list[str]]:
    """Return every key's own value, and the mistakes in the settings."""
    values: dict[str, Value | None] = {name: key.default for name, key in keys.items()}
    mistakes = []
    for name, setting in settings.items():
        key = broker_key(name, keys)
        if key is None:
            continue
        try:
            value = key.parse(setting.text)
        except ConfigError as error:
            mistakes.append(error.message + _place(setting.origin))
            continue
        if name in values:
            values[name] = value
    return values, mistakes
