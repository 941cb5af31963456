"""Where a value comes from: the topic, a change at run time, an override, a line of a file, or the default. Pure."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class OriginKind(enum.StrEnum):
    """The one above wins."""

    TOPIC = "topic"
    DYNAMIC = "dynamic"
    """Of this broker."""
    DYNAMIC_DEFAULT = "dynamic-default"
    """Of every broker of the cluster."""
    OVERRIDE = "override"
    FILE = "file"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """``key``: the one that was set, which may be a synonym of the one asked for. ``file``, ``line``: of FILE."""

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
    """A text that was set, and where. The text may be a secret, so nothing that prints a setting prints it."""

    text: str = field(repr=False)
    origin: Origin
