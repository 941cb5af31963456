"""A slice of a file in a response: ``sendfile`` moves it to the socket without a copy in memory."""

from __future__ import annotations

from typing import Protocol


class OpenFile(Protocol):
    def fileno(self) -> int: ...


class FileSlice:
    """A slice of ``length`` bytes of ``file`` from ``position`` on. It keeps ``file`` alive and never closes it."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: OpenFile, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length


Part = bytes | bytearray | memoryview | FileSlice
