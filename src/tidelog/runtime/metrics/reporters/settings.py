"""Parsers of the reporters' settings, which Kafka's own tables lack. They raise ConfigError."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.model.errors import ConfigError


def flag(settings: Mapping[str, str], key: str, *, default: bool) -> bool:
    text = settings.get(key, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ConfigError(f"{key} is {settings[key]!r}; it is true or false")
    return text == "true"


def whole_number(settings: Mapping[str, str], key: str, *, default: int, least: int = 1, most: int = 2**31 - 1) -> int:
    text = settings.get(key, str(default)).strip()
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if not least <= number <= most:
        raise ConfigError(f"{key} is {text!r}; it is a whole number from {least} to {most}")
    return number
