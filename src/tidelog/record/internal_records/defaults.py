"""The defaults that the decoder leaves out: they complete the fields of a version.

Coordinators need a value for every field, and Kafka prints a newer version than it reads in some places. Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from tidelog.record.internal_records.schema import Field, Message


def with_defaults(message: Message, values: Mapping[str, Any], version: int) -> dict[str, Any]:
    """Return a copy of ``values`` with every field that ``version`` has, in the order of the table."""
    return _filled(message.fields, values, version)


def _filled(fields: tuple[Field, ...], values: Mapping[str, Any], version: int) -> dict[str, Any]:
    filled = {}
    for field in fields:
        if version not in field.versions:
            continue
        value: Any = values[field.name] if field.name in values else deepcopy(field.default)
        if field.fields and isinstance(value, list):
            value = [_filled(field.fields, item, version) for item in value]
        elif field.fields and value is not None:
            value = _filled(field.fields, value, version)
        filled[field.name] = value
    return filled
