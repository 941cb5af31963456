from collections.abc import Iterable
from typing import Any

from tidelog.kernel.columns import Payload

def encode_records(
    records: Iterable[tuple[Any, ...]], *, base_offset: int | None = None, base_timestamp: int | None = None
) -> Payload: ...
