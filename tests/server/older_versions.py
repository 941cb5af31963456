"""The other versions of a request that have a field for every text and id of its values."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any
from uuid import UUID

from tidelog.protocol.api_key import VERSIONS, ApiKey
from tidelog.protocol.schemas import Direction, is_optional, struct_class, struct_type


def other_versions(api: ApiKey, version: int, values: Mapping[str, Any]) -> Iterator[int]:
    """Yield the other versions. Values without a field in a version may only be numbers, flags, null or empty."""
    for other in range(VERSIONS[api].oldest, VERSIONS[api].latest + 1):
        if other != version and _can_name(struct_class(api, Direction.REQUEST, other), values):
            yield other


def _can_name(struct: type, values: Mapping[str, Any]) -> bool:
    fields = {field.name: field.type for field in dataclasses.fields(struct)}
    for name, value in values.items():
        if name not in fields:
            if value and isinstance(value, str | UUID | list | tuple):
                return False
            continue
        if value is None and not is_optional(fields[name]):
            return False
        inner = struct_type(fields[name])
        items = value if isinstance(value, list | tuple) else [value]
        if inner is not None and not all(_can_name(inner, item) for item in items if isinstance(item, Mapping)):
            return False
    return True
