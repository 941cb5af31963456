"""The two implementations of every kernel under one set of names, and the comparison of their results."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from kernel.reference import (
    checksums,
    clean,
    decode,
    encode,
    lz4,
    map_keys,
    offset_map,
    partition_keys,
    scan,
    search,
    validate,
)
from tidelog import kernel
from tidelog.kernel.batch_retention import FilteredBatches
from tidelog.kernel.columns import RecordColumns
from tidelog.kernel.table import BatchTable
from tidelog.model import TidelogError

NAMES = {
    checksums: ("crc32c", "crc32"),
    lz4: ("open_lz4_frames",),
    scan: ("scan_batches",),
    decode: ("ColumnDecoder",),
    encode: ("ColumnEncoder", "encode_payload", "encode_batch", "encode_records", "seal_batch"),
    validate: ("ProduceRules", "validate_batches", "validate_records", "set_max_timestamp"),
    search: ("lookup_index", "lookup_index_above"),
    offset_map: ("OffsetMap",),
    map_keys: ("hash_batch_keys", "put_hashed_keys"),
    partition_keys: ("partition_keys",),
    clean: ("filter_batches", "pack_batches"),
}
COMPILED = SimpleNamespace(id="compiled", **{name: getattr(kernel, name) for names in NAMES.values() for name in names})
PLAIN = SimpleNamespace(
    id="plain", **{name: getattr(module, name) for module, names in NAMES.items() for name in names}
)

both = pytest.mark.parametrize("twin", [COMPILED, PLAIN], ids=lambda twin: twin.id)


def outcome(call: Callable[[], Any]) -> Any:
    """Return a call's result, or its error, as a value that can be compared."""
    try:
        return call()
    except (ArithmeticError, ValueError, TidelogError) as error:
        return type(error).__name__, str(error)


def table_value(table: BatchTable) -> Any:
    return (
        [tuple(row) for row in table.rows()],
        table.end_position,
        table.stop,
        table.partial_size,
        table.crc_verified,
        table.summary,
    )


def columns_value(columns: RecordColumns) -> dict[str, Any]:
    """Return every field as plain values, with dtypes, because Arrow takes the buffers unchanged."""
    found: dict[str, Any] = {}
    for name in RecordColumns.__slots__:
        value = getattr(columns, name)
        if isinstance(value, np.ndarray):
            found[name] = (value.dtype.str, value.tolist())
        elif isinstance(value, memoryview):
            found[name] = bytes(value)
        else:
            found[name] = value
    return found


def validation_value(validation: Any) -> dict[str, Any]:
    names = (
        "first_offset last_offset record_count batch_count size max_timestamp offset_of_max_timestamp "
        "last_offset_of_max_batch needs_decompression problem fault record_index"
    )
    return {name: getattr(validation, name) for name in names.split()}


def filtered_value(filtered: FilteredBatches) -> Any:
    return bytes(filtered.data), filtered.unpacked.tolist(), filtered[2:]
