from typing import Any

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

PENDING_ENTRIES: int
"""The number of entries per write to the file of an index."""

class IndexEnd:
    _base_offset: int
    _count: int
    _length: int
    _view: Any
    _closed: bool

class OffsetIndexEnd(IndexEnd):
    _last_offset: int
    @property
    def is_full(self) -> bool: ...
    def append(self, offset: int, position: int) -> None: ...

class TimeIndexEnd(IndexEnd):
    _last_timestamp: int
    _last_offset: int
    @property
    def is_full(self) -> bool: ...
    def maybe_append(self, timestamp: int, offset: int, skip_full_check: bool = False) -> None: ...

class IndexProgress:
    _base_offset: int
    _interval_bytes: int
    _state: tuple[int, int, int, int]
    def __init__(self, base_offset: int, interval_bytes: int) -> None: ...
    def add_one(self, size: int, last_offset: int, max_timestamp: int) -> bool: ...

class SegmentEnd:
    _size: int
    _created_ms: int
    _roll_timestamp: int | None
    _file_or_none: Any
    _indexes: Any
    _builder: Any
    def __init__(self, base_offset: int, size: int, created_ms: int) -> None: ...
    @property
    def base_offset(self) -> int: ...
    @property
    def size(self) -> int: ...
    def _set_roll_limits(self, segment_bytes: int, roll_after_ms: int) -> None: ...
    def _rows_allowed(
        self,
        size: npt.NDArray[np.int32],
        last_offset: npt.NDArray[np.int64],
        max_timestamp: npt.NDArray[np.int64],
        roll_timestamp: int | None,
        now_ms: int,
    ) -> npt.NDArray[np.bool_]: ...
    def has_room_for(self, size: int, last_offset: int, max_timestamp: int, now_ms: int) -> bool: ...
    def append_one(self, data: Buffer, size: int, last_offset: int, max_timestamp: int) -> None: ...
