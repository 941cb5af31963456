from typing_extensions import Buffer

class OpenFile:
    _fd: int
    def pwrite(self, data: Buffer, position: int) -> int: ...
