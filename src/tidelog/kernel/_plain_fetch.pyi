from collections.abc import Callable
from typing import Any

class PlainFetched:
    version: int
    parts: list[Any] | None
    partitions: list[Any]
    max_wait_ms: int

class PlainFetch:
    def __init__(self, find: Callable[[bytes, bool, int], Any]) -> None: ...
    def read(
        self, frame: bytearray | memoryview, most_bytes: int, copied_bytes: int, allows_rack: bool
    ) -> PlainFetched | None: ...
    def set_max_wait(self, frame: bytearray | memoryview, max_wait_ms: int) -> None: ...
