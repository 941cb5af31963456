"""The settings from which TLS is made: those of a listener, or of a client."""

from __future__ import annotations

from typing import Protocol

from tidelog.config.value_text import Value


class SslConfig(Protocol):
    @property
    def owner(self) -> str:
        """The owner for messages, such as ``listener EXTERNAL``."""
        ...

    def __getitem__(self, key: str) -> Value | None: ...

    def text(self, key: str) -> str | None:
        """Return the text of a STRING or PASSWORD key, or None if it is empty or missing."""
        ...

    def texts(self, key: str) -> tuple[str, ...]:
        """Return the non-empty items of a LIST key."""
        ...

    def named(self, key: str) -> str:
        """Return the name under which the value of ``key`` is set, for messages."""
        ...
