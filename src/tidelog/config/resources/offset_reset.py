"""The start position of a share group: the rule for ``share.auto.offset.reset``.

The rule is pure. Source: Kafka's ``ShareGroupAutoOffsetResetStrategy``, ``java.time.Duration.parse``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tidelog.config.valid import invalid_value
from tidelog.config.value_text import Value

_DURATION = re.compile(
    r"P(?=.)(\+?\d+D)?(T(?=.)(\+?\d+H)?(\+?\d+M)?(\+?\d+([.,]\d{0,9})?S)?)?", re.ASCII | re.IGNORECASE
)
"""A duration in ISO 8601 as Java reads it, without negative parts."""


@dataclass(frozen=True, slots=True)
class OffsetReset:
    """``earliest``, ``latest``, or ``by_duration:`` with a duration."""

    def refusal(self, name: str, value: Value) -> str | None:
        text = str(value)
        kind, _, duration = text.partition(":")
        if text in ("earliest", "latest") or (kind == "by_duration" and _DURATION.fullmatch(duration)):
            return None
        reason = (
            f"Invalid value `{text}` for configuration {name}. The value must be either 'earliest', 'latest' or of the "
            "format 'by_duration:<PnDTnHnMn.nS>'."
        )
        return invalid_value(name, text, reason)

    def __str__(self) -> str:
        return "[latest, earliest, by_duration:PnDTnHnMn.nS]"

    @property
    def words(self) -> str:
        return "earliest, latest, or by_duration: and a duration"
