"""The text of a checkpoint: a version line, a count line and as many entry lines, in pure functions.

Parsing is as strict as Kafka's about the version, the count and the form of each line. Callers also refuse duplicate
entries, which Kafka silently merges, because a checkpoint that contradicts itself cannot be trusted. An empty file is
an empty checkpoint, because Kafka creates the file empty. Source: Kafka's ``CheckpointFile``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from tidelog.model import CheckpointError

VERSION = 0
_INTEGER = re.compile(r"-?[0-9]{1,19}")

T = TypeVar("T")


def parse_checkpoint(data: bytes, parse_line: Callable[[str], T | None], *, path: Path | None = None) -> list[T]:
    """Return the entries of a checkpoint in the file's order.

    ``parse_line`` returns the entry of a line, or None for an invalid line. A CheckpointError names file and line.
    """
    lines = checkpoint_lines(data, path)
    if not lines:
        return []
    version = parse_integer(lines[0], bits=32)
    if version is None:
        raise line_error("a version number was expected", 1, lines[0], path)
    if version != VERSION:
        raise line_error(f"version {version} is unknown, {VERSION} was expected", 1, lines[0], path)
    if len(lines) < 2:
        return []
    count = parse_integer(lines[1], bits=32)
    if count is None or count < 0:
        raise line_error("the number of entries was expected", 2, lines[1], path)
    entries = []
    for number, line in enumerate(lines[2:], 3):
        entry = parse_line(line)
        if entry is None:
            raise line_error("not an entry", number, line, path)
        entries.append(entry)
    if len(entries) != count:
        raise CheckpointError(f"line 2 says {count} entries, but there are {len(entries)}", path=path)
    return entries


def format_checkpoint(lines: Iterable[str]) -> bytes:
    """Format entry lines as a complete checkpoint, as Kafka writes it."""
    entries = list(lines)
    return "".join(f"{line}\n" for line in (str(VERSION), str(len(entries)), *entries)).encode()


def checkpoint_lines(data: bytes, path: Path | None) -> list[str]:
    """Return the lines of a small text file without their ends. Raise CheckpointError if it is not UTF-8."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError("not a text file in UTF-8", path=path, position=error.start) from None
    lines = text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    if lines[-1] == "":
        lines.pop()
    return lines


def line_error(problem: str, number: int, line: str, path: Path | None) -> CheckpointError:
    shown = line if len(line) <= 80 else line[:77] + "..."
    return CheckpointError(f"line {number}: {problem}: {shown!r}", path=path)


def parse_integer(text: str, *, bits: int) -> int | None:
    """Parse a signed decimal integer of that many bits. Return None for any other text."""
    if _INTEGER.fullmatch(text) is None:
        return None
    value = int(text)
    above = 1 << bits - 1
    return value if -above <= value < above else None
