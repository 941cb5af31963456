"""The names of metrics as Kafka's dashboards and alerts use them: the texts of JMX object names.

``kafka.log:type=Log,name=Size,topic=orders,partition=0`` has the group, type, name and tags, with the tags in their own
sequence. A value with characters other than letters, digits, ``_ - % .``, space and tab is quoted like
``ObjectName.quote`` does. Thread rule: any thread. Source: Kafka's ``KafkaMetricsGroup``, ``Sanitizer``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_PLAIN = re.compile(r"[A-Za-z0-9_\-%. \t]*")
_QUOTED = str.maketrans({"\\": r"\\", '"': r"\"", "*": r"\*", "?": r"\?", "\n": r"\n"})


@dataclass(frozen=True, slots=True)
class MetricName:
    """A metric's name. Names with equal texts are equal."""

    group: str
    """An example is ``kafka.log``."""
    type: str
    """A current or former class of Kafka, such as ``Log``."""
    name: str
    """An example is ``Size``. The name may be empty."""
    tags: tuple[tuple[str, str], ...] = ()
    """Keys and values. Tags without a value are left out."""

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
    """Return ``value`` as a name contains it."""
    return value if _PLAIN.fullmatch(value) else f'"{value.translate(_QUOTED)}"'
