"""Comparison of captured znodes, path by path, with a table of the differences that have a reason."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

Znodes = Mapping[str, Mapping[str, Any]]
"""The data, as text or None, and the version by path, as ``captured`` returns them."""
_RANDOM: Final = {"topic_id", "id", "timestamp"}
"""The fields of JSON that are random, or a time."""
_CREDENTIAL: Final = re.compile(r"salt=[^,]+,stored_key=[^,]+,server_key=[^,]+,iterations=(\d+)")


class Difference(NamedTuple):
    path: str
    kind: str
    """``missing`` in the second znodes, ``new`` in them, or another ``data`` or ``version``."""
    values: tuple[object, object]


class Allowed(NamedTuple):
    """A row of a table: the differences of these paths have a reason."""

    pattern: str
    """A regular expression that the path matches."""
    kinds: frozenset[str]
    reason: str

    @classmethod
    def of(cls, pattern: str, kinds: str, reason: str) -> Allowed:
        return cls(pattern, frozenset(kinds.split()), reason)

    def has(self, difference: Difference) -> bool:
        return difference.kind in self.kinds and re.fullmatch(self.pattern, difference.path) is not None


def differences(first: Znodes, second: Znodes) -> Iterator[Difference]:
    """Yield the differences. Random ids, times and credentials do not count."""
    for path in sorted(first.keys() | second.keys()):
        if path not in second:
            yield Difference(path, "missing", (first[path]["data"], None))
        elif path not in first:
            yield Difference(path, "new", (None, second[path]["data"]))
        else:
            one, other = (comparable(znodes[path]["data"]) for znodes in (first, second))
            if one != other:
                yield Difference(path, "data", (one, other))
            versions = first[path]["version"], second[path]["version"]
            if versions[0] != versions[1]:
                yield Difference(path, "version", versions)


def unexplained(found: Iterable[Difference], table: Sequence[Allowed]) -> list[str]:
    """Return the differences that no row of the table has, a line each."""
    return [
        f"{one.path}: {one.kind}: {one.values[0]} | {one.values[1]}"
        for one in found
        if not any(row.has(one) for row in table)
    ]


def comparable(data: str | None) -> object:
    """Return the data without random parts. Objects keep the sequence of their keys; arrays of objects have none."""
    if data is None:
        return None
    try:
        return _comparable(json.loads(data))
    except ValueError:
        return data


def _comparable(value: Any) -> object:
    if isinstance(value, dict):
        return [(key, "random" if key in _RANDOM else _comparable(one)) for key, one in value.items()]
    if isinstance(value, list) and any(isinstance(one, dict) for one in value):
        return sorted((_comparable(one) for one in value), key=str)
    if isinstance(value, str):
        return _CREDENTIAL.sub(r"a credential of \1 iterations", value)
    return value


def shapes(znodes: Znodes) -> dict[str, object]:
    """Return the shape of each znode's data by path, without the announcements of changes."""
    lasting = {path: one["data"] for path, one in znodes.items() if "_change" not in path}
    return {path: None if data is None else shape_of(json.loads(data)) for path, data in lasting.items()}


def shape_of(value: Any) -> object:
    """Return the keys in their sequence, and the types of values. The items of an array are sorted by their shapes."""
    if isinstance(value, dict):
        return [(key, shape_of(one)) for key, one in value.items()]
    if isinstance(value, list):
        return sorted((shape_of(one) for one in value), key=str)
    return type(value).__name__
