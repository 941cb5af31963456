"""The settings of a client metrics subscription (KIP-714), and Kafka's checks of them.

A pattern is compiled only to validate it. It is compiled as bytes, because a Unicode character range takes time for
each of its characters. A server that takes patterns from untrusted clients must bound their length.

Columns are the fields of ``Key``. The functions are pure. Source: Kafka's ``ClientMetricsConfigs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tidelog.config.columns import CHECKED, CLUSTER_WIDE, INT, LIST, MEDIUM
from tidelog.config.key import Key, table
from tidelog.config.valid import ANY, ITEMS
from tidelog.model import ConfigError

# fmt: off
CLIENT_METRICS_KEYS = table(
    Key("interval.ms", INT, 300_000, ANY, MEDIUM, CLUSTER_WIDE,
        "How often clients send the metrics.", effect=CHECKED),
    Key("match", LIST, (), ITEMS, MEDIUM, CLUSTER_WIDE,
        "Which clients: `attribute=pattern` items that must all match; every client if empty.", effect=CHECKED),
    Key("metrics", LIST, (), ITEMS, MEDIUM, CLUSTER_WIDE,
        "Which metrics: prefixes of their names; `*` for all.", effect=CHECKED),
)
# fmt: on

_SHORTEST_MS, _LONGEST_MS = 100, 3_600_000
_ATTRIBUTES = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class InvalidRequestError(ConfigError):
    """A wrong setting that Kafka reports as INVALID_REQUEST."""

    code = 42


def check_client_metrics(texts: Mapping[str, str]) -> None:
    """Raise ConfigError for a text of another type or an invalid pattern, InvalidRequestError for other mistakes."""
    for name in texts:
        if name not in CLIENT_METRICS_KEYS:
            raise InvalidRequestError(f"Unknown client metrics configuration: {name}")
    for name, text in texts.items():
        value = CLIENT_METRICS_KEYS[name].parse(text)
        if isinstance(value, tuple) and name == "match":
            _check_patterns(value)
        elif isinstance(value, int) and not _SHORTEST_MS <= value <= _LONGEST_MS:
            raise InvalidRequestError(
                f"Invalid value {value} for {name}, interval must be between 100 and 3600000 (1 hour)"
            )


def _check_patterns(items: Iterable[str]) -> None:
    """Raise ConfigError for an item that is not a known attribute with a valid pattern."""
    for item in items:
        attribute, *patterns = item.split("=")
        if len(patterns) != 1 or attribute.strip() not in _ATTRIBUTES or not _is_pattern(patterns[0]):
            raise ConfigError(f"Illegal client matching pattern: {item}")


def _is_pattern(text: str) -> bool:
    try:
        re.compile(text.strip().encode())
    except (re.error, ValueError, OverflowError, RecursionError):  # all but the first: excessive counts and nesting
        return False
    return bool(text)
