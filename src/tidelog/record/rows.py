"""Records as Python values: columns to ``Record`` tuples, and lists of Python values to columns.

This is the slow way, for people and small logs; bulk data goes through Arrow. Even so, a kernel makes the objects of
many records at once. Pure. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, pairwise
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.kernel import RecordColumns, byte_strings, named_tuples
from tidelog.model import Header, Record, TimestampType
from tidelog.record.internal_records.text import java_text

Bytes = bytes | bytearray | memoryview
HeaderLike = tuple[str, Bytes | None]

_NO_HEADERS: Final[tuple[Header, ...]] = ()
_TYPES: Final = {int(member): member for member in TimestampType}
_BLOCK_ROWS: Final = 256
"""The number of records that become Python objects in one step."""
_MAX_DATA_BYTES: Final = 2**31 - 1


def iter_records(columns: RecordColumns) -> Iterator[Record]:
    """Yield the records; a column that was not decoded gives None (headers: an empty tuple)."""
    size = len(columns)
    starts = range(0, size, _BLOCK_ROWS)
    return chain.from_iterable(_block(columns, start, min(size, start + _BLOCK_ROWS)) for start in starts)


def columns_from_lists(
    values: Sequence[Bytes | None],
    *,
    keys: Sequence[Bytes | None] | None = None,
    timestamps: Sequence[int | None] | None = None,
    headers: Sequence[Iterable[HeaderLike]] | None = None,
    default_timestamp_ms: int = -1,
) -> RecordColumns:
    """Return the columns of new records: offsets 0, 1, 2, …, create timestamps.

    All sequences must have the length of ``values``, else ValueError. A None in ``timestamps``, or no timestamps, means
    ``default_timestamp_ms``. Raise TypeError for keys and values that are not bytes. Raise OverflowError for more than
    2 GiB of keys, values or headers.
    """
    size = len(values)
    for name, column in (("keys", keys), ("timestamps", timestamps), ("headers", headers)):
        if column is not None and len(column) != size:
            raise ValueError(f"{len(column)} {name} for {size} values")
    given = [default_timestamp_ms if t is None else t for t in timestamps] if timestamps is not None else []
    parts: dict[str, Any] = {
        "offset": np.arange(size, dtype=np.int64),
        "timestamp": np.array(given, np.int64) if given else np.full(size, default_timestamp_ms, np.int64),
        "timestamp_type": np.zeros(size, np.int8),
        **_string_columns("value", values),
    }
    if keys is not None:
        parts |= _string_columns("key", keys)
    if headers is not None:
        parts |= _header_columns(headers)
    return RecordColumns(**parts)


def _block(columns: RecordColumns, start: int, end: int) -> list[Record]:
    rows = slice(start, end)
    return named_tuples(
        Record,
        columns.offset[rows].tolist(),
        columns.timestamp[rows].tolist(),
        [_TYPES[type_] for type_ in columns.timestamp_type[rows].tolist()],
        _byte_strings(columns.key_data, columns.key_offsets, columns.key_validity, start, end),
        _byte_strings(columns.value_data, columns.value_offsets, columns.value_validity, start, end),
        _header_tuples(columns, start, end),
    )


def _byte_strings(
    data: memoryview | None,
    offsets: npt.NDArray[np.int32] | None,
    validity: npt.NDArray[np.uint8] | None,
    start: int,
    end: int,
) -> list[bytes | None]:
    if data is None or offsets is None:
        return [None] * (end - start)
    return byte_strings(data, offsets, validity, start, end)


def _header_tuples(columns: RecordColumns, start: int, end: int) -> list[tuple[Header, ...]]:
    if columns.header_offsets is None or columns.header_key_offsets is None or columns.header_key_data is None:
        return [_NO_HEADERS] * (end - start)
    bounds = columns.header_offsets[start : end + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    if first == last:
        return [_NO_HEADERS] * (end - start)
    encoded = byte_strings(columns.header_key_data, columns.header_key_offsets, None, first, last)
    decode = bytes.decode if columns.header_keys_are_utf8 else java_text
    values = _byte_strings(
        columns.header_value_data, columns.header_value_offsets, columns.header_value_validity, first, last
    )
    headers = tuple(named_tuples(Header, [decode(key) for key in encoded if key is not None], values))
    return [headers[low:high] for low, high in pairwise((bounds - first).tolist())]


def _string_columns(name: str, strings: Sequence[Bytes | None]) -> dict[str, Any]:
    valid = np.fromiter((string is not None for string in strings), np.bool_, len(strings))
    nulls = len(strings) - int(valid.sum())
    present = [string for string in strings if string is not None] if nulls else strings
    for string in present:
        if not isinstance(string, bytes | bytearray | memoryview):
            raise TypeError(f"a {name.replace('_', ' ')} is bytes or None, not {type(string).__name__}")
    data = b"".join(present)  # type: ignore[arg-type] # the Nones are removed
    if len(data) > _MAX_DATA_BYTES:
        raise OverflowError(f"{len(data):,} bytes of {name} in one call; at most {_MAX_DATA_BYTES:,} fit")
    offsets = np.zeros(len(strings) + 1, np.int32)
    sizes = np.zeros(len(strings), np.int64)
    sizes[valid] = [memoryview(string).nbytes for string in present]  # type: ignore[arg-type]
    np.cumsum(sizes, out=offsets[1:])
    return {
        f"{name}_offsets": offsets,
        f"{name}_data": memoryview(data),
        f"{name}_validity": np.packbits(valid, bitorder="little") if nulls else None,
        f"{name}_null_count": nulls,
    }


def _header_columns(headers: Sequence[Iterable[HeaderLike]]) -> dict[str, Any]:
    listed = [tuple(record_headers) for record_headers in headers]
    offsets = np.zeros(len(listed) + 1, np.int32)
    np.cumsum([len(record_headers) for record_headers in listed], out=offsets[1:])
    flat = [header for record_headers in listed for header in record_headers]
    keys = _string_columns("header_key", [key.encode("utf-8") for key, _ in flat])
    del keys["header_key_validity"], keys["header_key_null_count"]
    return {"header_offsets": offsets} | keys | _string_columns("header_value", [value for _, value in flat])
