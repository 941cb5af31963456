from collections.abc import Callable, Sequence
from typing import Any

class PlainProduce:
    def __init__(self, find: Callable[[bytes, bool, int], Any], now_ms: Callable[[], int]) -> None: ...
    def respond(
        self, frame: bytearray | memoryview, following: Sequence[bytearray | memoryview]
    ) -> tuple[list[int], bytes] | None: ...
