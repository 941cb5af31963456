"""The conversion of an option's text to its value.

Every error names the option, the text and the expected form. The functions are pure.
"""

from __future__ import annotations

import difflib
import enum
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar
from urllib.parse import unquote, urlsplit

from tidelog.model import ConfigError, TopicPartition
from tidelog.storage.fs.objects import path_of

T = TypeVar("T", bound=enum.Enum)

Given = Mapping[str, str]
"""The options by lower-case name."""

_LARGEST = 2**63 - 1
_WHOLE = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_MOST_SHOWN = 200
_LIKENESS = 0.85
"""The least similarity of a typo to a known name, as in startingOffset, include-headers, subscribePatern."""


def shown(value: object) -> str:
    """Return a value for a message, in quotes and shortened if it is long."""
    text = repr(value)
    return text if len(text) <= _MOST_SHOWN else text[:_MOST_SHOWN] + "…"


def refuse_misspelt(given: Given, known: Iterable[str]) -> None:
    """Raise ConfigError for an unknown option that resembles a known one. Spark's sources ignore unknown options."""
    by_lower_case = {name.lower(): name for name in known}
    for name in sorted(given.keys() - by_lower_case.keys()):
        close = difflib.get_close_matches(name, by_lower_case, n=1, cutoff=_LIKENESS)
        if close:
            raise ConfigError(f"Unknown option '{name}': did you mean '{by_lower_case[close[0]]}'?")


def unknown_options(options: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return the unknown names as given, without those of Kafka's clients (``kafka.…``)."""
    lower = {name.lower() for name in known}
    return sorted(name for name in options if name.lower() not in lower and not name.lower().startswith("kafka."))


def parse_log_dirs(given: Given) -> tuple[str, ...]:
    """Parse ``logDirs``, else the argument of ``load``: a comma list of distinct paths, ``file:`` URIs and addresses.

    Relative paths start where the driver's session was started. Spark adds a ``path`` to tables by itself, so a
    ``path`` together with ``logDirs`` is no error.
    """
    text = given.get("logdirs", given.get("path", ""))
    dirs = dict.fromkeys(_directory(part.strip()) for part in text.split(",") if part.strip())
    if not dirs:
        raise ConfigError("Option 'logDirs' is required: a comma-separated list of Kafka log directories")
    return tuple(dirs)


def _directory(text: str) -> str:
    if text.lower().startswith("file:"):
        address = urlsplit(text)
        if address.netloc not in ("", "localhost"):
            raise ConfigError(f"Option 'logDirs' takes only file: URIs of this machine: {shown(text)}")
        text = unquote(address.path)
    return str(path_of(text).absolute())


def parse_assignment(text: str) -> Iterable[TopicPartition]:
    example = '{"topicA":[0,1],"topicB":[0,1]}'
    for topic, partitions in _json_object(text, "assign", example).items():
        if not isinstance(partitions, list) or not all(_is_whole(number, least=0) for number in partitions):
            raise ConfigError(f"Option 'assign' wants JSON like {example}; got {shown(text)}")
        yield from (TopicPartition(topic, number) for number in partitions)


def parse_partition_map(text: str, option: str, *, least: int) -> dict[TopicPartition, int]:
    """Parse JSON with a number for each partition."""
    example = '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}' if least < 0 else '{"topicA":{"0":1700000000000}}'
    result: dict[TopicPartition, int] = {}
    for topic, numbers in _json_object(text, option, example).items():
        if not isinstance(numbers, dict):
            raise ConfigError(f"Option '{option}' wants JSON like {example}; got {shown(text)}")
        for partition, number in numbers.items():
            if not (partition.isascii() and partition.isdecimal()) or not _is_whole(number, least=least):
                raise ConfigError(
                    f"Option '{option}' has a bad entry for {topic}-{partition}: {shown(number)} "
                    f"(a whole number from {least})"
                )
            result[TopicPartition(topic, int(partition))] = number
    return result


def _json_object(text: str, option: str, example: str) -> dict[str, object]:
    try:
        parsed = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"Option '{option}' wants JSON like {example}; got {shown(text)}: {error}") from None
    if not isinstance(parsed, dict) or not parsed:
        raise ConfigError(f"Option '{option}' wants JSON like {example}; got {shown(text)}")
    return parsed


def _is_whole(number: object, *, least: int) -> bool:
    return isinstance(number, int) and not isinstance(number, bool) and least <= number <= _LARGEST


def parse_enum(given: Given, option: str, kind: Callable[[str], T], default: T) -> T:
    text = given.get(option.lower())
    if text is None:
        return default
    try:
        return kind(text.strip().lower())
    except ValueError:
        allowed = ", ".join(member.value for member in type(default))
        raise ConfigError(f"Option '{option}' takes one of {allowed}; got {shown(text)}") from None


def parse_choice(given: Given, option: str, allowed: tuple[str, ...], default: str) -> str:
    text = given.get(option.lower(), default).lower()
    if text not in allowed:
        raise ConfigError(f"Option '{option}' takes one of {', '.join(allowed)}; got {shown(text)}")
    return text


def parse_boolean(given: Given, option: str, *, default: bool) -> bool:
    return parse_choice(given, option, ("true", "false"), "true" if default else "false") == "true"


def parse_positive(given: Given, option: str) -> int | None:
    text = given.get(option.lower())
    return None if text is None else parse_whole(text, option, least=1)


def parse_whole(text: str, option: str, *, least: int) -> int:
    number = int(text) if _WHOLE.fullmatch(text) else None
    if number is None or not least <= number <= _LARGEST:
        raise ConfigError(f"Option '{option}' takes a whole number from {least}; got {shown(text)}")
    return number


_TIME = re.compile(r"(\d+)(us|ms|s|m|min|h|d|)", re.ASCII)
_MICROSECONDS = {
    "us": 1,
    "": 1000,
    "ms": 1000,
    "s": 1_000_000,
    "m": 60_000_000,
    "min": 60_000_000,
    "h": 3_600_000_000,
    "d": 86_400_000_000,
}


def parse_time_ms(text: str, option: str) -> int:
    """Parse a time in Spark's notation to whole milliseconds. A time without a unit is in milliseconds."""
    match = _TIME.fullmatch(text.strip().lower())
    milliseconds = _LARGEST + 1 if match is None else int(match[1]) * _MICROSECONDS[match[2]] // 1000
    if milliseconds > _LARGEST:
        raise ConfigError(f"Option '{option}' takes a time like 500ms, 50s, 15m, 2h or 1d; got {shown(text)}")
    return milliseconds
