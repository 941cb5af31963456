from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from typing_extensions import Buffer

from tidelog.kernel._offset_map import OffsetMap
from tidelog.kernel.hashed_keys import HashedKeys
from tidelog.kernel.table import BatchTable

def hash_batch_keys(
    offset_map: OffsetMap,
    buffer: Buffer,
    table: BatchTable,
    *,
    wanted: npt.NDArray[np.bool_],
    start_offset: int,
    opened: Sequence[Buffer | None] | None = None,
    base_position: int = 0,
) -> HashedKeys: ...
def put_hashed_keys(offset_map: OffsetMap, hashed: HashedKeys, *, start_offset: int) -> bool: ...
def siphash_lanes(keys: Sequence[Buffer], key: Buffer) -> dict[int, list[bytes]]: ...
