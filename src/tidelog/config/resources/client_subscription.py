"""A subscription to metrics of clients (KIP-714): its settings, and what Kafka refuses. Pure.

Columns are the fields of ``Key``. Source: Kafka's ``ClientMetricsConfigs``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from tidelog.config.columns import CLUSTER_WIDE, INT, LIST, MEDIUM
from tidelog.config.key import Key, table
from tidelog.config.valid import ANY
from tidelog.model import ConfigError

# fmt: off
CLIENT_METRICS_KEYS = table(
    Key("interval.ms", INT, 300_000, ANY, MEDIUM, CLUSTER_WIDE,
        "How often clients send the metrics.", used=True),
    Key("match", LIST, (), ANY, MEDIUM, CLUSTER_WIDE,
        "Which clients: `attribute=pattern`, all of which must fit; of every client where empty.", used=True),
    Key("metrics", LIST, (), ANY, MEDIUM, CLUSTER_WIDE,
        "Which metrics: prefixes of their names; `*` for all.", used=True),
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


class UnfitRequestError(ConfigError):
    """What Kafka answers with INVALID_REQUEST, although a setting is wrong."""

    code = 42


def check_client_metrics(texts: Mapping[str, str]) -> None:
    """ConfigError for texts of another type and patterns that are none; UnfitRequestError for the rest."""
    for name in texts:
        if name not in CLIENT_METRICS_KEYS:
            raise UnfitRequestError(f"Unknown client metrics configuration: {name}")
    for name, text in texts.items():
        value = CLIENT_METRICS_KEYS[name].parse(text)
        if isinstance(value, tuple) and name == "match":
            matching_patterns(value)
        elif isinstance(value, int) and not _SHORTEST_MS <= value <= _LONGEST_MS:
            raise UnfitRequestError(
                f"Invalid value {value} for {name}, interval must be between 100 and 3600000 (1 hour)"
            )


def matching_patterns(items: Iterable[str]) -> dict[str, re.Pattern[str]]:
    """Which pattern an attribute of a client must fit; ConfigError for an item that says no such thing."""
    return dict(map(_matching_pattern, items))


def _matching_pattern(item: str) -> tuple[str, re.Pattern[str]]:
    attribute, *patterns = item.split("=")
    if len(patterns) == 1 and patterns[0] and attribute.strip() in _ATTRIBUTES:
        try:
            return attribute.strip(), re.compile(patterns[0].strip())
        except re.error:
            pass
    raise ConfigError(f"Illegal client matching pattern: {item}")
