from typing import Any

class PlainReads:
    def __init__(self, state: Any, lifecycle: Any) -> None: ...
