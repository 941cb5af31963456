"""Record columns to Arrow and back, without work per record.

``to_arrow`` shares the columns' own buffers with Arrow; only timestamps in microseconds are copied. It leaves out the
columns that were not decoded::

    offset int64 | timestamp | timestamp_type int8 (-1 none, 0 create, 1 log append) | key binary | value binary |
    headers list<struct<key: string, value: binary>>

Every record has a list of headers, which may be empty; keys, values and header values may be null. ``from_arrow``
accepts new records in several common types. Pure. Thread rule: any thread.
"""

from __future__ import annotations

from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.kernel import RecordColumns
from tidelog.model import InvalidRecordError
from tidelog.record.internal_records.text import java_text

TimestampUnit = Literal["ms", "us", "int64"]

HEADERS_TYPE: Final = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))

_TIMESTAMP_TYPES: Final = {"ms": pa.timestamp("ms", tz="UTC"), "us": pa.timestamp("us", tz="UTC"), "int64": pa.int64()}
_FINER_THAN_MS: Final = {"us": 1_000, "ns": 1_000_000}
_MAX_EXACT_MS: Final = (2**63 - 1) // 1000
_TAKEN: Final = frozenset({"key", "value", "timestamp", "headers"})
_PASSED_OVER: Final = frozenset({"offset", "timestamp_type"})


def record_schema(
    *, keys: bool = True, values: bool = True, headers: bool = True, timestamps: TimestampUnit = "ms"
) -> pa.Schema:
    """Return the schema of ``to_arrow`` for a decoder with these columns."""
    fields = [("offset", pa.int64()), ("timestamp", _TIMESTAMP_TYPES[timestamps]), ("timestamp_type", pa.int8())]
    wanted = [("key", pa.binary(), keys), ("value", pa.binary(), values), ("headers", HEADERS_TYPE, headers)]
    return pa.schema(fields + [(name, type_) for name, type_, is_wanted in wanted if is_wanted])


def to_arrow(columns: RecordColumns, *, timestamps: TimestampUnit = "ms") -> pa.RecordBatch:
    """Return the columns as one record batch; ``timestamps`` as for ``to_array``."""
    names = ["offset", "timestamp", "timestamp_type"]
    wanted = {"key": columns.key_offsets, "value": columns.value_offsets, "headers": columns.header_offsets}
    names += [name for name, offsets in wanted.items() if offsets is not None]
    return pa.RecordBatch.from_arrays([to_array(columns, name, timestamps=timestamps) for name in names], names=names)


def to_array(columns: RecordColumns, name: str, *, timestamps: TimestampUnit = "ms") -> pa.Array:
    """Return one column of ``record_schema``. Raise ValueError if it was not decoded.

    ``timestamps``: "ms" is ``timestamp[ms, UTC]``. "us" is ``timestamp[us, UTC]``, the type of Spark, null for a time
    beyond the range of microseconds. "int64" is milliseconds as in the log (-1: none).
    """
    size = len(columns)
    match name:
        case "offset":
            return _numbers(columns.offset, pa.int64())
        case "timestamp":
            return _timestamps(columns.timestamp, timestamps)
        case "timestamp_type":
            return _numbers(columns.timestamp_type, pa.int8())
        case "key" if columns.key_offsets is not None:
            return _strings(size, columns.key_offsets, columns.key_data, columns.key_validity, columns.key_null_count)
        case "value" if columns.value_offsets is not None:
            return _strings(
                size, columns.value_offsets, columns.value_data, columns.value_validity, columns.value_null_count
            )
        case "headers" if columns.header_offsets is not None:
            return header_lists(columns)
    raise ValueError(f"these columns were decoded without the column {name}")


def header_lists(columns: RecordColumns) -> pa.ListArray:
    """Return each record's headers; key bytes that are not UTF-8 become U+FFFD, as in Kafka's clients."""
    if columns.header_offsets is None or columns.header_key_offsets is None:
        raise ValueError("these columns were decoded without headers")
    count = len(columns.header_key_offsets) - 1
    keys = _strings(count, columns.header_key_offsets, columns.header_key_data, None, 0)
    if columns.header_keys_are_utf8:
        keys = keys.view(pa.string())
    else:
        keys = pa.array([java_text(key) for key in keys.to_pylist()], pa.string())
    values = _strings(
        count,
        columns.header_value_offsets,
        columns.header_value_data,
        columns.header_value_validity,
        columns.header_value_null_count,
    )
    structs = pa.StructArray.from_arrays([keys, values], fields=list(HEADERS_TYPE.value_type))
    offsets = pa.py_buffer(columns.header_offsets)
    return pa.Array.from_buffers(HEADERS_TYPE, len(columns), [None, offsets], 0, children=[structs])


def from_arrow(data: pa.RecordBatch | pa.Table, *, default_timestamp_ms: int = -1) -> RecordColumns:
    """Return new records from Arrow: offsets 0, 1, 2, …, create timestamps.

    Columns are found by name; only ``value`` is required. ``key`` and ``value`` have a binary, string or null type.
    ``timestamp``: a timestamp of any unit (floored to milliseconds; without a zone it is UTC), a date, or integer
    milliseconds; null or absent means ``default_timestamp_ms``. ``headers``: list of struct<key, value>, or a map; a
    null list is an empty one. ``offset`` and ``timestamp_type``, which ``to_arrow`` produces, are ignored.

    Raise InvalidRecordError for another column, a type that does not fit, a header without a key, or more than 2 GiB
    in a column. Buffers are shared with ``data`` if their types allow it.
    """
    names = data.schema.names
    unknown = sorted(set(names) - _TAKEN - _PASSED_OVER)
    if "value" not in names or unknown or len(set(names)) != len(names):
        raise InvalidRecordError(
            f"records have a column value and may have key, timestamp and headers, once each; given: {', '.join(names)}"
        )
    size = data.num_rows
    parts: dict[str, Any] = {
        "offset": np.arange(size, dtype=np.int64),
        "timestamp": np.full(size, default_timestamp_ms, np.int64),
        "timestamp_type": np.zeros(size, np.int8),
    }
    for name in names:
        if name in _PASSED_OVER:
            continue
        try:
            array = _one_array(data.column(name))
            if name == "timestamp":
                parts["timestamp"] = _milliseconds(array, default_timestamp_ms)
            elif name == "headers":
                parts |= _header_parts(array)
            else:
                parts |= _string_parts(name, array.cast(pa.binary()))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError, pa.ArrowCapacityError) as error:
            raise InvalidRecordError(f"the column {name} does not fit: {error}") from None
    return RecordColumns(**parts)


def _numbers(array: npt.NDArray[Any], type_: pa.DataType) -> pa.Array:
    return pa.Array.from_buffers(type_, len(array), [None, pa.py_buffer(array)], 0)


def _timestamps(milliseconds: npt.NDArray[np.int64], unit: TimestampUnit) -> pa.Array:
    type_ = _TIMESTAMP_TYPES[unit]
    if unit != "us":
        return _numbers(milliseconds, type_)
    with np.errstate(over="ignore"):
        microseconds = milliseconds * 1000
    exact = (milliseconds <= _MAX_EXACT_MS) & (milliseconds >= -_MAX_EXACT_MS)
    if exact.all():
        return _numbers(microseconds, type_)
    return pa.array(microseconds, pa.int64(), mask=~exact).view(type_)


def _strings(
    size: int,
    offsets: npt.NDArray[np.int32] | None,
    data: memoryview | None,
    validity: npt.NDArray[np.uint8] | None,
    null_count: int,
) -> pa.Array:
    bitmap = None if validity is None else pa.py_buffer(validity)
    return pa.Array.from_buffers(pa.binary(), size, [bitmap, pa.py_buffer(offsets), pa.py_buffer(data)], null_count)


def _one_array(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    if isinstance(column, pa.Array):
        return column
    combined = column.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):  # Arrow returns chunks if the column exceeds 2 GiB
        if combined.num_chunks > 1:
            raise InvalidRecordError("a column of more than 2 GiB does not fit: give the records in several parts")
        return combined.chunk(0) if combined.num_chunks else pa.array([], combined.type)
    return combined


def _milliseconds(array: pa.Array, default_timestamp_ms: int) -> npt.NDArray[np.int64]:
    divisor = 1
    if pa.types.is_timestamp(array.type):
        divisor = _FINER_THAN_MS.get(array.type.unit, 1)
        if divisor == 1:
            array = array.cast(pa.timestamp("ms", tz=array.type.tz))
    elif pa.types.is_date(array.type):
        array = array.cast(pa.timestamp("ms"))
    elif not pa.types.is_integer(array.type) and not pa.types.is_null(array.type):
        raise InvalidRecordError(f"a timestamp is a timestamp, a date or an integer, not {array.type}")
    numbers: npt.NDArray[np.int64] = array.cast(pa.int64()).fill_null(0).to_numpy()
    if divisor > 1:
        numbers = numbers // divisor
    if array.null_count:
        return np.where(array.is_null().to_numpy(zero_copy_only=False), default_timestamp_ms, numbers)
    return numbers


def _string_parts(name: str, array: pa.BinaryArray) -> dict[str, Any]:
    """Return the parts of a column; a sliced array shares its data but gets its own offsets and bitmap."""
    validity, offsets, data = array.buffers()
    first, size = array.offset, len(array)
    bitmap = None
    if array.null_count:
        bitmap = np.frombuffer(validity, np.uint8)
        if first:
            bits = np.unpackbits(bitmap, count=first + size, bitorder="little")[first:]
            bitmap = np.packbits(bits, bitorder="little")
    bounds = np.frombuffer(offsets, np.int32) if offsets else np.zeros(1, np.int32)
    return {
        f"{name}_offsets": bounds[first : first + size + 1],
        f"{name}_data": memoryview(b"" if data is None else data),
        f"{name}_validity": bitmap,
        f"{name}_null_count": array.null_count,
    }


def _header_parts(array: pa.Array) -> dict[str, Any]:
    if pa.types.is_null(array.type):
        array = array.cast(HEADERS_TYPE)
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])))
    if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
        raise InvalidRecordError(f"headers are a list of struct<key, value>, not {array.type}")
    structs = array.flatten()
    if not pa.types.is_struct(structs.type) or {field.name for field in structs.type} != {"key", "value"}:
        raise InvalidRecordError(f"headers are a list of struct<key, value>, not {array.type}")
    from pyarrow.compute import list_value_length  # the import takes 0.1 s, and readers never need it

    lengths = list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    bounds = np.zeros(len(array) + 1, np.int64)
    np.cumsum(lengths, out=bounds[1:])
    if bounds[-1] > 2**31 - 1:
        raise InvalidRecordError(f"{bounds[-1]:,} headers in one call; give the records in several parts")
    members = dict(zip([field.name for field in structs.type], structs.flatten(), strict=True))
    keys = _string_parts("header_key", members["key"].cast(pa.string()).cast(pa.binary()))
    if keys.pop("header_key_null_count"):
        raise InvalidRecordError("a header has no key")
    del keys["header_key_validity"]
    return (
        {"header_offsets": bounds.astype(np.int32)}
        | keys
        | _string_parts("header_value", members["value"].cast(pa.binary()))
    )
