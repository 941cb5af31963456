"""The file of ``--at-offsets``: the end of each partition, as JSON in one of these forms.

::

    {"orders-0": 120, "orders-1": 98}
    {"orders": {"0": 120, "1": 98}}
    [{"topic": "orders", "partition": 0, "offset": 120}, …]        also one such object per line

The last form is the output of ``tidelog offsets --json`` and ``--jsonl``; other fields are ignored. An offset of null
names no end, as if the partition was missing. The records from the offset on are left out. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tidelog.model import ConfigError, DirectoryError, TopicPartition

_MAX_OFFSET = 2**63 - 1


def parse_offsets(text: str) -> dict[TopicPartition, int]:
    """Return the offsets by partition. Raise ConfigError for another form, or two offsets of one partition."""
    found: dict[TopicPartition, int] = {}
    for partition, offset in _entries(_json(text)):
        if offset is None:
            continue
        if type(offset) is not int or not 0 <= offset <= _MAX_OFFSET:
            raise ConfigError(f"the offset of {partition} is {offset!r}, not a number from 0 on")
        if found.setdefault(partition, offset) != offset:
            raise ConfigError(f"{partition} has two offsets: {found[partition]} and {offset}")
    return found


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        lines = [line for line in text.splitlines() if line.strip()]
        try:
            if len(lines) > 1:
                return [json.loads(line) for line in lines]
        except (ValueError, RecursionError):
            pass
        raise ConfigError(f"the offsets are no JSON: {error}") from None


def _entries(content: Any) -> Iterator[tuple[TopicPartition, Any]]:
    if isinstance(content, list):
        for row in content:
            if not isinstance(row, dict) or not row.keys() >= {"topic", "partition", "offset"}:
                raise ConfigError(f"an entry of the offsets needs topic, partition and offset: {row!r}")
            yield _partition(row["topic"], row["partition"]), row["offset"]
        return
    if not isinstance(content, dict):
        raise ConfigError("the offsets are neither a JSON object nor a list")
    for name, value in content.items():
        if isinstance(value, dict):
            for number, offset in value.items():
                yield _partition(name, number), offset
        else:
            yield _named(name), value


def _partition(topic: Any, number: Any) -> TopicPartition:
    return _named(f"{topic}-{number}")


def _named(name: str) -> TopicPartition:
    try:
        return TopicPartition.from_directory_name(name)
    except DirectoryError:
        raise ConfigError(f"{name!r} is no TOPIC-PARTITION") from None
