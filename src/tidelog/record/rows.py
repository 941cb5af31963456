"""Records as Python values: columns to ``Record`` tuples, and lists of Python values to columns.

This is the slow way, for people and small logs; bulk data goes through Arrow. Even so, lists and arrays are used where
possible instead of single records. Pure. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, pairwise, repeat
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.kernel import RecordColumns
from tidelog.model import Header, Record, TimestampType
from tidelog.record.internal_records.text import java_text

Bytes = bytes | bytearray | memoryview
HeaderLike = tuple[str, Bytes | None]
Bools = npt.NDArray[np.bool_]

_NO_HEADERS: Final[tuple[Header, ...]] = ()
_TYPES: Final = {int(member): member for member in TimestampType}
_BLOCK_ROWS: Final = 2_048
"""The number of records that become Python objects in one step."""
_MAX_DATA_BYTES: Final = 2**31 - 1

_new_record: Final = partial(tuple.__new__, Record)
_new_header: Final = partial(tuple.__new__, Header)


class _Valid(NamedTuple):
    """Masks of the strings that are not null, unpacked once; None for a column that was not decoded."""

    keys: Bools | None
    values: Bools | None
    header_values: Bools | None


def iter_records(columns: RecordColumns) -> Iterator[Record]:
    """Yield the records; a column that was not decoded gives None (headers: an empty tuple)."""
    size = len(columns)
    valid = _Valid(columns.key_valid, columns.value_valid, columns.header_value_valid)
    starts = range(0, size, _BLOCK_ROWS)
    return chain.from_iterable(_block(columns, valid, start, min(size, start + _BLOCK_ROWS)) for start in starts)


def columns_from_records(records: Iterable[Record]) -> RecordColumns:
    """Return the columns of ``records``, with their offsets and timestamps."""
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


def _block(columns: RecordColumns, valid: _Valid, start: int, end: int) -> Iterator[Record]:
    rows = slice(start, end)
    fields = (
        columns.offset[rows].tolist(),
        columns.timestamp[rows].tolist(),
        _timestamp_types(columns.timestamp_type[rows]),
        _byte_strings(columns.key_offsets, columns.key_data, valid.keys, start, end),
        _byte_strings(columns.value_offsets, columns.value_data, valid.values, start, end),
        _header_tuples(columns, valid.header_values, start, end),
    )
    records: Iterator[Record] = map(_new_record, zip(*fields, strict=True))
    return records


def _byte_strings(
    offsets: npt.NDArray[np.int32] | None,
    data: memoryview | None,
    valid: Bools | None,
    start: int,
    end: int,
) -> Iterable[bytes | None]:
    if offsets is None or data is None or valid is None:
        return repeat(None, end - start)
    whole, bounds = _cut(offsets, data, start, end)
    if valid[start:end].all():
        return [whole[low:high] for low, high in bounds]
    flags = valid[start:end].tolist()
    return [whole[low:high] if flag else None for (low, high), flag in zip(bounds, flags, strict=True)]


def _cut(
    offsets: npt.NDArray[np.int32], data: memoryview, start: int, end: int
) -> tuple[bytes, Iterator[tuple[int, int]]]:
    """Return the bytes of the strings [start, end), and the bounds of each string in them."""
    bounds = offsets[start : end + 1]
    return bytes(data[bounds[0] : bounds[-1]]), pairwise((bounds - bounds[0]).tolist())


def _timestamp_types(types: npt.NDArray[np.int8]) -> Iterable[TimestampType]:
    if (types == types[0]).all():
        return repeat(_TYPES[int(types[0])], len(types))
    return [_TYPES[type_] for type_ in types.tolist()]


def _header_tuples(columns: RecordColumns, valid: Bools | None, start: int, end: int) -> Iterable[tuple[Header, ...]]:
    if columns.header_offsets is None or columns.header_key_offsets is None or columns.header_key_data is None:
        return repeat(_NO_HEADERS, end - start)
    bounds = columns.header_offsets[start : end + 1]
    first, last = int(bounds[0]), int(bounds[-1])
    if first == last:
        return repeat(_NO_HEADERS, end - start)
    whole, key_bounds = _cut(columns.header_key_offsets, columns.header_key_data, first, last)
    if columns.header_keys_are_utf8:
        keys = [whole[low:high].decode() for low, high in key_bounds]
    else:
        keys = [java_text(whole[low:high]) for low, high in key_bounds]
    values = _byte_strings(columns.header_value_offsets, columns.header_value_data, valid, first, last)
    headers: tuple[Header, ...] = tuple(map(_new_header, zip(keys, values, strict=True)))
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
