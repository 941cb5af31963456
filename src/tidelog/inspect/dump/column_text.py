"""A variable-size column of records as lists of bytes or of text, one value per record.

A column that is ASCII throughout is decoded once and sliced as text. Otherwise every value is decoded on its own, as
Java does it. The functions are pure. Thread rule: any thread.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple, Self

import numpy as np
import numpy.typing as npt

from tidelog.kernel import RecordColumns
from tidelog.record.internal_records.text import java_text


class StringColumn(NamedTuple):
    """``data[offsets[i]:offsets[i + 1]]`` is the value of record i. A null value is empty and not ``valid``."""

    offsets: npt.NDArray[np.int32]
    data: memoryview
    valid: npt.NDArray[np.bool_]

    @classmethod
    def keys(cls, columns: RecordColumns) -> Self:
        return cls._checked(columns.key_offsets, columns.key_data, columns.key_valid)

    @classmethod
    def values(cls, columns: RecordColumns) -> Self:
        return cls._checked(columns.value_offsets, columns.value_data, columns.value_valid)

    @classmethod
    def header_keys(cls, columns: RecordColumns) -> Self:
        offsets = columns.header_key_offsets
        return cls._checked(offsets, columns.header_key_data, np.ones(0 if offsets is None else len(offsets) - 1, bool))

    @classmethod
    def header_values(cls, columns: RecordColumns) -> Self:
        return cls._checked(columns.header_value_offsets, columns.header_value_data, columns.header_value_valid)

    @classmethod
    def _checked(
        cls, offsets: npt.NDArray[np.int32] | None, data: memoryview | None, valid: npt.NDArray[np.bool_] | None
    ) -> Self:
        if offsets is None or data is None or valid is None:
            raise ValueError("the records were decoded without this column")
        return cls(offsets, data, valid)

    @property
    def sizes(self) -> npt.NDArray[np.int64]:
        """The size of each value in bytes, -1 for a null."""
        return np.where(self.valid, np.diff(self.offsets), -1).astype(np.int64)

    def byte_strings(self) -> list[bytes | None]:
        whole = bytes(self.data)
        values: list[bytes | None] = [whole[start:end] for start, end in pairwise(self.offsets.tolist())]
        for index in np.flatnonzero(~self.valid).tolist():
            values[index] = None
        return values

    def texts(self) -> list[str]:
        """Return the values as text. Null and empty values both become the empty text."""
        whole = bytes(self.data)
        bounds = pairwise(self.offsets.tolist())
        if whole.isascii():
            text = whole.decode("ascii")
            return [text[start:end] for start, end in bounds]
        return [java_text(whole[start:end]) for start, end in bounds]


def header_key_lists(columns: RecordColumns) -> Sequence[str] | None:
    """Return the header keys of each record as ``[a,b]``, or None if no record has headers."""
    column = StringColumn.header_keys(columns)
    if columns.header_offsets is None or not len(column.valid):
        return None
    keys = column.texts()
    return [f"[{','.join(keys[start:end])}]" for start, end in pairwise(columns.header_offsets.tolist())]
