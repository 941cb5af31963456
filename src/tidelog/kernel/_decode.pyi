from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from tidelog.kernel.columns import RecordColumns
from tidelog.kernel.table import BatchTable

class ColumnDecoder:
    stopped_at: int
    def __init__(
        self,
        *,
        keys: bool = True,
        values: bool = True,
        headers: bool = True,
        sequences: bool = False,
        start_offset: int = ...,
        end_offset: int = ...,
        max_rows: int = ...,
        max_bytes: int = ...,
        limit_bytes: int = ...,
    ) -> None: ...
    @property
    def rows(self) -> int: ...
    @property
    def data_bytes(self) -> int: ...
    @property
    def full(self) -> bool: ...
    def fits(self, payload_bytes: int) -> bool: ...
    def add_batches(
        self,
        buffer: Buffer,
        table: BatchTable,
        first: int = 0,
        last: int | None = None,
        *,
        base_position: int = 0,
        batch: int = 0,
        keep: npt.NDArray[np.bool_] | None = None,
    ) -> int: ...
    def add_payload(
        self,
        payload: Buffer,
        *,
        base_offset: int,
        base_timestamp: int,
        max_timestamp: int,
        attributes: int,
        record_count: int,
        batch: int = 0,
        base_sequence: int = -1,
        last_offset: int | None = None,
        position: int | None = None,
    ) -> None: ...
    def add_record(
        self,
        *,
        offset: int,
        timestamp: int,
        timestamp_type: int,
        key: Buffer | None = None,
        value: Buffer | None = None,
        headers: Iterable[tuple[Buffer, Buffer | None]] = (),
        batch: int = 0,
        sequence: int = -1,
    ) -> None: ...
    def finish(self) -> RecordColumns: ...
