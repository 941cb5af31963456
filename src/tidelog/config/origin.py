"""The origin of a value: the topic, a run-time change, an override, a line of a file, or the default."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


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
