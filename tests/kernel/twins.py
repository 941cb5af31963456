"""The two implementations of every kernel under one set of names, and the comparison of their results."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any, TypedDict, cast

import numpy as np
import numpy.typing as npt
import pytest

from kernel.reference import (
    checksums,
    clean,
    decode,
    encode,
    lz4,
    map_keys,
    objects,
    offset_map,
    partition_keys,
    scan,
    search,
    validate,
)
from tidelog import kernel
from tidelog.kernel._validate import Validation
from tidelog.kernel.batch_retention import FilteredBatches
from tidelog.kernel.columns import RecordColumns
from tidelog.kernel.table import BatchTable
from tidelog.model import TidelogError


class DecoderLimits(TypedDict, total=False):
    """The limits of a ``ColumnDecoder``."""

    max_rows: int
    max_bytes: int
    limit_bytes: int


class Twin:
    """An implementation of each kernel: the compiled one, whose signatures the plain one has too."""

    id = "compiled"
    crc32c = staticmethod(kernel.crc32c)
    crc32 = staticmethod(kernel.crc32)
    open_lz4_frames = staticmethod(kernel.open_lz4_frames)
    scan_batches = staticmethod(kernel.scan_batches)
    BatchScan = kernel.BatchScan
    scan_headers = staticmethod(kernel.scan_headers)
    ColumnDecoder = kernel.ColumnDecoder
    ColumnEncoder = kernel.ColumnEncoder
    encode_payload = staticmethod(kernel.encode_payload)
    encode_batch = staticmethod(kernel.encode_batch)
    encode_records = staticmethod(kernel.encode_records)
    seal_batch = staticmethod(kernel.seal_batch)
    ProduceRules = kernel.ProduceRules
    validate_batches = staticmethod(kernel.validate_batches)
    validate_records = staticmethod(kernel.validate_records)
    set_max_timestamp = staticmethod(kernel.set_max_timestamp)
    lookup_index = staticmethod(kernel.lookup_index)
    lookup_index_above = staticmethod(kernel.lookup_index_above)
    OffsetMap = kernel.OffsetMap
    hash_batch_keys = staticmethod(kernel.hash_batch_keys)
    put_hashed_keys = staticmethod(kernel.put_hashed_keys)
    partition_keys = staticmethod(kernel.partition_keys)
    filter_batches = staticmethod(kernel.filter_batches)
    pack_batches = staticmethod(kernel.pack_batches)
    byte_strings = staticmethod(kernel.byte_strings)
    named_tuples = staticmethod(kernel.named_tuples)


PLAIN_MODULES = (
    checksums, lz4, scan, decode, encode, validate, search, offset_map, map_keys, partition_keys, clean, objects
)  # fmt: skip
NAMES = [name for name in vars(Twin) if name[0] != "_" and name != "id"]


def plain_kernel(name: str) -> object:
    """Return the plain implementation of a kernel, from the module that defines it."""
    (found,) = (
        vars(module)[name]
        for module in PLAIN_MODULES
        if name in vars(module) and vars(module)[name].__module__ == module.__name__
    )
    return found


COMPILED = Twin()
PLAIN = cast("Twin", SimpleNamespace(id="plain", **{name: plain_kernel(name) for name in NAMES}))

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


def numbers(column: npt.NDArray[np.int32] | None) -> list[int]:
    """Return the numbers of a column that must be there."""
    assert column is not None
    found: list[int] = column.tolist()
    return found


def parts(
    offsets: npt.NDArray[np.int32] | None, data: memoryview | None, valid: Iterable[bool] | None
) -> list[bytes | None]:
    """Return each row's bytes of a column that must be there."""
    assert offsets is not None
    assert data is not None
    assert valid is not None
    return [
        bytes(data[start:end]) if flag else None
        for start, end, flag in zip(offsets[:-1], offsets[1:], valid, strict=True)
    ]


def validation_value(validation: Validation) -> dict[str, Any]:
    names = (
        "first_offset last_offset record_count batch_count size max_timestamp offset_of_max_timestamp "
        "last_offset_of_max_batch needs_decompression problem fault record_index"
    )
    return {name: getattr(validation, name) for name in names.split()}


def filtered_value(filtered: FilteredBatches) -> Any:
    return bytes(filtered.data), filtered.unpacked.tolist(), filtered[2:]


@contextmanager
def memory_file(data: bytes) -> Iterator[int]:
    """Yield the descriptor of a file with these bytes."""
    descriptor = os.memfd_create("log")
    try:
        os.write(descriptor, data)
        yield descriptor
    finally:
        os.close(descriptor)
