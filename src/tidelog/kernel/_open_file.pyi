from pathlib import Path

from typing_extensions import Buffer

class OpenFile:
    _path: Path
    _fd: int
    def __init__(self, path: Path, fd: int) -> None: ...
    def pwrite(self, data: Buffer, position: int) -> int: ...
