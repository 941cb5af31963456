"""Limits on one request, because two bytes of a request may cost the broker hundreds. Pure.

=====================  =============  ================================================================================
limit                  applies to     reason
=====================  =============  ================================================================================
``MOST_ITEMS``         every request  each item of an array becomes an object, work, and a part of the response
``MOST_PLAIN_BYTES``   requests       the number of items is unknown before decoding; the largest that clients send are
                       without        group assignments of one or a few megabytes
                       records
``MOST_STRING_BYTES``  every string   no release of Kafka reads a longer one, from the wire or from a log
=====================  =============  ================================================================================

Kafka has only the last limit: it decodes every request of up to 100 MB.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from tidelog.protocol.errors import MalformedMessageError
from tidelog.protocol.schemas import Struct, is_array, struct_type

MOST_ITEMS: Final = 100_000
MOST_PLAIN_BYTES: Final = 8 * 1024 * 1024
MOST_STRING_BYTES: Final = 0x7FFF


def require_few_items(count: int, most_items: int = MOST_ITEMS) -> None:
    if count > most_items:
        raise MalformedMessageError(f"a message has more than {most_items} items, the limit")


def require_plain_size(size: int) -> None:
    """Raise MalformedMessageError if a request without records has too many bytes."""
    if size > MOST_PLAIN_BYTES:
        raise MalformedMessageError(
            f"a request of {size} bytes exceeds the limit of {MOST_PLAIN_BYTES} for requests without records"
        )


def require_short_string(size: int) -> None:
    if size > MOST_STRING_BYTES:
        raise MalformedMessageError(f"a string of {size} bytes exceeds the limit of {MOST_STRING_BYTES}")


def item_count(message: Struct) -> int:
    """Return the number of items in all arrays."""
    return _counter(type(message))(message)  # type: ignore[arg-type] # a class is hashable even if its instances are not


@cache
def _counter(struct: type[Struct]) -> Callable[[Struct], int]:
    fields: list[tuple[str, bool, Callable[[Struct], int] | None]] = []
    for field in dataclasses.fields(struct):  # type: ignore[arg-type] # every subclass of Struct is a dataclass
        inner: Any = struct_type(field.type)
        if inner is not None or is_array(field.type):
            fields.append((field.name, is_array(field.type), None if inner is None else _counter(inner)))

    def count(message: Struct) -> int:
        total = 0
        for name, is_many, count_one in fields:
            value = getattr(message, name)
            if value is None:
                continue
            items = value if is_many else (value,)
            total += len(value) if is_many else 0
            if count_one is not None:
                total += sum(map(count_one, items))
        return total

    return count
