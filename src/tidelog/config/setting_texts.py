"""The texts of settings whose type the reader does not care about, for any configuration that is read by key."""

from __future__ import annotations

from tidelog.config.value_text import Password, Value


class SettingTexts:
    """The base of a configuration. It has ``config[key]``, which is a value or None."""

    __slots__ = ()

    def __getitem__(self, key: str) -> Value | None:
        raise KeyError(key)

    def text(self, key: str) -> str | None:
        """Return the text of a STRING, CLASS or PASSWORD key, or None if it is empty or missing."""
        value = self[key]
        text = value.text if isinstance(value, Password) else value
        return str(text) if text else None

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the non-empty items of a LIST key."""
        value = self[key]
        return tuple(filter(None, value)) if isinstance(value, tuple) else ()
