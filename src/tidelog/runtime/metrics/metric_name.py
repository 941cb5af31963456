"""The names of metrics, as dashboards and alerts of Kafka know them: the texts of JMX's object names.

``kafka.log:type=Log,name=Size,topic=orders,partition=0``: group, type, name, then tags in their order; a value with
other characters than letters, digits, ``_ - % .``, space and tab is quoted as ``ObjectName.quote`` does.
Called by: whoever has metrics, reporters. Thread rule: values. Source: Kafka's ``KafkaMetricsGroup``, ``Sanitizer``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z0-9_\-%. \t]*")
_QUOTED = str.maketrans({"\\": r"\\", '"': r"\"", "*": r"\*", "?": r"\?", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class MetricName:
    """Equal where the text is."""

    group: str
    """``kafka.log``."""
    type: str
    """``Log``; Kafka's class, or what was one."""
    name: str
    """``Size``; may be empty."""
    tags: tuple[tuple[str, str], ...] = ()
    """Keys and values; those without a value are left out."""

    def __post_init__(self) -> None:
        for _, value in self.tags:
            if not value:
                object.__setattr__(self, "tags", tuple(tag for tag in self.tags if tag[1]))
                return

    def __str__(self) -> str:
        name = f",name={self.name}" if self.name else ""
        tags = "".join(f",{key}={quoted(value)}" for key, value in self.tags)
        return f"{self.group}:type={self.type}{name}{tags}"


def quoted(value: str) -> str:
    """``value`` as it stands in a name."""
    return value if _PLAIN.fullmatch(value) else f'"{value.translate(_QUOTED)}"'
