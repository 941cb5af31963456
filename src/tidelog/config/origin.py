"""The origin of a value: the topic, a run-time change, an override, a line of a file, or the default.

Java reads a ``server.properties`` file as ISO-8859-1. The last line of a repeated key counts.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path

from tidelog.config.java_properties import properties
from tidelog.model import ConfigError


class OriginKind(enum.StrEnum):
    """The kinds of origin by priority, the highest first."""

    TOPIC = "topic"
    DYNAMIC = "dynamic"
    """A run-time change for this broker."""
    DYNAMIC_DEFAULT = "dynamic-default"
    """A run-time change for every broker of the cluster."""
    OVERRIDE = "override"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """``key`` is the key that was set, perhaps a synonym of the requested one. Only FILE has ``file`` and ``line``."""

    kind: OriginKind
    key: str
    file: str = ""
    line: int = 0

    @property
    def place(self) -> str:
        """``server.properties:12``, or the kind."""
        return f"{self.file}:{self.line}" if self.kind is OriginKind.FILE else self.kind.value

    def __str__(self) -> str:
        return self.place


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A text that was set, and its origin. The text may be a secret, so ``repr`` omits it."""

    text: str = field(repr=False)
    origin: Origin


def read_server_properties(path: Path) -> dict[str, Setting]:
    """Return the settings by key. Raise ConfigError if the file cannot be read or is malformed."""
    try:
        text = path.read_text(encoding="latin-1")
        return parse_server_properties(text, path.name)
    except OSError as error:
        raise ConfigError(f"cannot be read: {error.strerror}", path=path) from None
    except ValueError as error:
        raise ConfigError(str(error), path=path) from None


def parse_server_properties(text: str, file_name: str) -> dict[str, Setting]:
    """Return the settings by key. Raise ValueError for a malformed escape. Origins carry ``file_name``."""
    settings = {}
    for key, value, line in properties(text):
        origin = Origin(kind=OriginKind.FILE, key=key, file=file_name, line=line)
        settings[key] = Setting(text=value, origin=origin)
    return settings
