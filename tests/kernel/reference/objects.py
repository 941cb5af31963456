"""Python objects from columns. This is the twin of _objects.pyx."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Buffer

_Kind = TypeVar("_Kind", bound=tuple[object, ...])


def byte_strings(
    data: Buffer, offsets: NDArray[np.int32], validity: NDArray[np.uint8] | None, start: int, end: int
) -> list[bytes | None]:
    """Return the bytes of each row in [start, end), None for a null; row i is ``data[offsets[i]:offsets[i + 1]]``."""
    view = memoryview(data).cast("B")
    if not 0 <= start <= end < len(offsets):
        raise ValueError(f"rows [{start}:{end}] of {len(offsets) - 1}")
    if validity is not None and len(validity) < (end + 7) // 8:
        raise ValueError(f"{len(validity)} bytes of validity for {end} rows")
    found: list[bytes | None] = []
    for row in range(start, end):
        first, last = int(offsets[row]), int(offsets[row + 1])
        if not 0 <= first <= last <= len(view):
            raise ValueError(f"row {row} has the bytes [{first}:{last}] of {len(view)}")
        is_null = validity is not None and not validity[row >> 3] >> (row & 7) & 1
        found.append(None if is_null else bytes(view[first:last]))
    return found


def named_tuples(kind: type[_Kind], *columns: list[Any]) -> list[_Kind]:
    """Return a ``kind`` for each row of the columns."""
    if not issubclass(kind, tuple):
        raise TypeError(f"{kind.__name__} is not a tuple")
    if not all(isinstance(column, list) for column in columns):
        raise TypeError("a column is not a list")
    if len({len(column) for column in columns}) != 1:
        raise ValueError(f"columns of {', '.join(str(len(column)) for column in columns) or 'no'} objects")
    return [tuple.__new__(kind, fields) for fields in zip(*columns, strict=True)]
