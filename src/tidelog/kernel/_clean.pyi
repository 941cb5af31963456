from collections.abc import Sequence

from typing_extensions import Buffer

from tidelog.kernel._offset_map import OffsetMap
from tidelog.kernel.batch_retention import BatchRetention, CleaningRules, FilteredBatches
from tidelog.kernel.table import BatchTable

def filter_batches(
    buffer: Buffer,
    table: BatchTable,
    decisions: BatchRetention,
    offset_map: OffsetMap,
    rules: CleaningRules,
    *,
    opened: Sequence[Buffer | None] | None = None,
    base_position: int = 0,
) -> FilteredBatches: ...
def pack_batches(filtered: FilteredBatches, packed: Sequence[Buffer]) -> Buffer: ...
