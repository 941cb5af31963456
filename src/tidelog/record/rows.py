"""Records as Python values: columns to ``Record`` tuples, and lists of Python values to columns.

The slow door, for people and small logs; bulk goes through Arrow. Still nothing is looked at record by record that a
list or an array can do at once. Pure; any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise, repeat
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.kernel import RecordColumns
from tidelog.model import Header, Record, TimestampType
from tidelog.record.internal.text import java_text

Bytes = bytes | bytearray | memoryview
HeaderLike = tuple[str, Bytes | None]

_NO_HEADERS: Final[tuple[Header, ...]] = ()
_TYPES: Final = {int(member): member for member in TimestampType}
_MAX_DATA_BYTES: Final = 2**31 - 1

_new_record: Final = partial(tuple.__new__, Record)
_new_header: Final = partial(tuple.__new__, Header)


def iter_records(columns: RecordColumns) -> Iterator[Record]:
    """The records in order; a column that was not decoded comes as None (headers: as none)."""
    size = len(columns)
    keys = _byte_strings(columns.key_offsets, columns.key_data, columns.key_valid, size)
    values = _byte_strings(columns.value_offsets, columns.value_data, columns.value_valid, size)
    fields = (
        columns.offset.tolist(),
        columns.timestamp.tolist(),
        _timestamp_types(columns.timestamp_type),
        keys,
        values,
        _header_tuples(columns),
    )
    records: Iterator[Record] = map(_new_record, zip(*fields, strict=False))
    return records


def columns_from_records(records: Iterable[Record]) -> RecordColumns:
    """Columns of ``records`` with the offsets and timestamps they have."""
    listed = list(records)
    columns = columns_from_lists(
        [record.value for record in listed],
        keys=[record.key for record in listed],
        timestamps=[record.timestamp for record in listed],
        headers=[record.headers for record in listed],
    )
    columns.offset[:] = [record.offset for record in listed]
    columns.timestamp_type[:] = [record.timestamp_type for record in listed]
    return columns


def columns_from_lists(
    values: Sequence[Bytes | None],
    *,
    keys: Sequence[Bytes | None] | None = None,
    timestamps: Sequence[int | None] | None = None,
    headers: Sequence[Iterable[HeaderLike]] | None = None,
    default_timestamp_ms: int = -1,
) -> RecordColumns:
    """Columns of new records: offsets 0, 1, 2, …, create timestamps.

    All sequences have the length of ``values`` (ValueError otherwise); None in ``timestamps``, or no timestamps, stands
    for ``default_timestamp_ms``. TypeError for keys and values that are no bytes; OverflowError past 2 GiB of keys,
    values or headers.
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


def _byte_strings(
    offsets: npt.NDArray[np.int32] | None,
    data: memoryview | None,
    valid: npt.NDArray[np.bool_] | None,
    size: int,
) -> Iterable[bytes | None]:
    if offsets is None or data is None or valid is None:
        return repeat(None, size)
    whole = bytes(data)
    bounds = pairwise(offsets.tolist())
    if valid.all():
        return [whole[start:end] for start, end in bounds]
    flags = valid.tolist()
    return [whole[start:end] if flag else None for (start, end), flag in zip(bounds, flags, strict=True)]


def _timestamp_types(types: npt.NDArray[np.int8]) -> Iterable[TimestampType]:
    if len(types) and (types == types[0]).all():
        return repeat(_TYPES[int(types[0])], len(types))
    return [_TYPES[type_] for type_ in types.tolist()]


def _header_tuples(columns: RecordColumns) -> Iterable[tuple[Header, ...]]:
    size = len(columns)
    if columns.header_offsets is None or columns.header_key_offsets is None or columns.header_key_data is None:
        return repeat(_NO_HEADERS, size)
    count = len(columns.header_key_offsets) - 1
    if count == 0:
        return repeat(_NO_HEADERS, size)
    key_bytes = bytes(columns.header_key_data)
    keys = [java_text(key_bytes[start:end]) for start, end in pairwise(columns.header_key_offsets.tolist())]
    values = _byte_strings(columns.header_value_offsets, columns.header_value_data, columns.header_value_valid, count)
    headers: list[Header] = list(map(_new_header, zip(keys, values, strict=True)))
    bounds = pairwise(columns.header_offsets.tolist())
    return [tuple(headers[start:end]) if start < end else _NO_HEADERS for start, end in bounds]


def _string_columns(name: str, strings: Sequence[Bytes | None]) -> dict[str, Any]:
    valid = np.fromiter((string is not None for string in strings), np.bool_, len(strings))
    nulls = len(strings) - int(valid.sum())
    present = [string for string in strings if string is not None] if nulls else strings
    for string in present:
        if not isinstance(string, bytes | bytearray | memoryview):
            raise TypeError(f"a {name.replace('_', ' ')} is bytes or None, not {type(string).__name__}")
    data = b"".join(present)  # type: ignore[arg-type] # the Nones are out
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
