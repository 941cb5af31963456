"""The settings of a source's topic as the copy gets them. Pure.

==========================================================  ==========================================================
a setting at the source                                     in the copy
==========================================================  ==========================================================
of replicas, throttling or tiers                            left out: it belongs to the source's brokers
with a key that Kafka 4.4 does not know                     left out
a number outside Kafka 4.4's range                          the nearest number of the range, with a note
another value that Kafka 4.4 refuses                        left out, with a note
any other                                                   the same
==========================================================  ==========================================================

Kafka does not start on a directory whose metadata has a topic setting that it refuses. Kafka 3 allows settings that
Kafka 4 refuses, such as ``segment.bytes`` below 1 MiB (KIP-1030).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from tidelog.config.key import Key
from tidelog.config.topic_keys import TOPIC_KEYS
from tidelog.config.valid import Between
from tidelog.config.value_text import format_value, parse_value
from tidelog.model import ConfigError

_LEFT_OUT_PREFIXES: Final = ("remote.", "local.retention.")
_LEFT_OUT: Final = frozenset(
    {"leader.replication.throttled.replicas", "follower.replication.throttled.replicas", "min.insync.replicas"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class CopiedSettings:
    texts: Mapping[str, str]
    notes: Sequence[str]
    """A text for each setting that the copy has with another value, or lacks because Kafka 4.4 refuses it."""

    @classmethod
    def of(cls, settings: Mapping[str, str]) -> CopiedSettings:
        texts: dict[str, str] = {}
        notes: list[str] = []
        for name, text in settings.items():
            key = TOPIC_KEYS.get(name)
            if key is None or name in _LEFT_OUT or name.startswith(_LEFT_OUT_PREFIXES):
                continue
            try:
                key.parse(text)
            except ConfigError as refusal:
                nearest = _nearest(key, text)
                if nearest is None:
                    notes.append(f"{name}={text} is left out ({refusal})")
                    continue
                notes.append(f"{name} is {nearest} instead of {text} ({refusal})")
                text = nearest
            texts[name] = text
        return cls(texts=texts, notes=notes)


def _nearest(key: Key, text: str) -> str | None:
    """Return the number of the key's range that is nearest to a refused one. Return None if it is no number."""
    try:
        value = parse_value(text, key.type)
    except ValueError:
        return None
    if not isinstance(key.valid, Between) or not isinstance(value, int | float):
        return None
    bound = key.valid.low if value < key.valid.low else key.valid.high
    return None if bound is None else format_value(bound)
