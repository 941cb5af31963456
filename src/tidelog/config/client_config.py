"""The configuration of a client, from Kafka's client keys in a properties file or a mapping.

Each text is checked, and ConfigError names every mistake with its line. An unknown key is a mistake, because a client
without its security settings would send a password in clear text. Keys of Kafka's clients that have no effect here are
accepted and listed. Passwords are never shown. Source: Kafka's ``AbstractConfig``, ``AdminClientConfig``.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tidelog.config.broker_keys import looks_like_key
from tidelog.config.client_keys import CLIENT_KEYS, CONSUMER_NAMES
from tidelog.config.origin import Origin, OriginKind, Setting, read_server_properties
from tidelog.config.setting_texts import SettingTexts
from tidelog.config.value_text import Value
from tidelog.model import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientConfig(SettingTexts):
    """``config["request.timeout.ms"]`` is a key's value, set or default, or None. KeyError means an unknown key.

    Reading a key without effect raises AssertionError, because the key's row in the table would be wrong.
    """

    settings: Mapping[str, Setting]
    without_effect: tuple[str, ...] = field(init=False, default=())
    """Keys of Kafka's clients that are set but have no effect here."""
    _values: Mapping[str, Value] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        values, mistakes = {}, []
        for name, setting in self.settings.items():
            key = CLIENT_KEYS.get(name)
            if key is None:
                if name not in CONSUMER_NAMES:
                    mistakes.append(f"{_unknown_text(name)} ({setting.origin})")
                continue
            try:
                values[name] = key.parse(setting.text)
            except ConfigError as error:
                mistakes.append(f"{error.message} ({setting.origin})")
        if mistakes:
            raise ConfigError("; ".join(mistakes))
        unused = (name for name in self.settings if name in CONSUMER_NAMES or not CLIENT_KEYS[name].used)
        object.__setattr__(self, "_values", values)
        object.__setattr__(self, "without_effect", tuple(unused))

    @classmethod
    def load(cls, path: Path | None = None, overrides: Mapping[str, str] | None = None) -> Self:
        """Read a properties file, if given, under ``overrides``. Raise ConfigError with every mistake."""
        settings = {} if path is None else read_server_properties(path)
        for key, text in (overrides or {}).items():
            settings[key] = Setting(text=text, origin=Origin(kind=OriginKind.OVERRIDE, key=key))
        return cls(settings=settings)

    @property
    def owner(self) -> str:
        return "the client"

    def __getitem__(self, key: str) -> Value | None:
        row = CLIENT_KEYS[key]
        row.require_effect()
        return self._values.get(key, row.default)

    def is_set(self, key: str) -> bool:
        return key in self.settings

    def number(self, key: str) -> int:
        """Return the value of an INT or LONG key."""
        value = self[key]
        assert isinstance(value, int), key
        return value

    def named(self, key: str) -> str:
        """Return the name under which the value of ``key`` is set, for messages."""
        return key


def _unknown_text(name: str) -> str:
    if not looks_like_key(name):
        return "the line is no setting"  # it may be a part of a secret
    near = difflib.get_close_matches(name, CLIENT_KEYS, 1)
    return f"{name} is not a key of Kafka's clients" + (f"; did you mean {near[0]}?" if near else "")
