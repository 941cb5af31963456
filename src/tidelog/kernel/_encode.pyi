from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tidelog.kernel.columns import Payload, RecordColumns

class ColumnEncoder:
    rows: int
    def __init__(self, columns: RecordColumns) -> None: ...
    def payload(
        self,
        first: int = 0,
        last: int | None = None,
        *,
        base_offset: int | None = None,
        base_timestamp: int | None = None,
    ) -> Payload: ...
    def batch_boundaries(
        self, first: int = 0, last: int | None = None, *, max_batch_bytes: int, max_records: int = ...
    ) -> npt.NDArray[np.int64]: ...
    def batches(
        self,
        boundaries: Sequence[int] | npt.NDArray[np.int64],
        *,
        base_offset: int = 0,
        keep_offsets: bool = False,
        attributes: int = 0,
        leader_epoch: int = -1,
        producer_id: int = -1,
        producer_epoch: int = -1,
        base_sequence: int = -1,
    ) -> bytearray: ...

def encode_payload(
    columns: RecordColumns,
    first: int = 0,
    last: int | None = None,
    *,
    base_offset: int | None = None,
    base_timestamp: int | None = None,
) -> Payload: ...
def encode_batch(
    columns: RecordColumns,
    first: int = 0,
    last: int | None = None,
    *,
    base_offset: int = 0,
    keep_offsets: bool = False,
    attributes: int = 0,
    leader_epoch: int = -1,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
) -> bytearray: ...
